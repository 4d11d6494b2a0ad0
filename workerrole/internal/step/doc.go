// Package step holds the steps, one file each, in the order in which a video
// meets them:
//
//	probe   what is it, how is it cut; fans out          → encode, audio
//	encode  one chunk, all renditions                    → the next chunk; finish, when it is the last
//	audio   one portion of the sound                     → finish, when it is the last
//	digest  have we got this file already                → finish, when it is the last
//	finish  playlists, poster, storyboard, MP4           → index
//	loudness  how loud is it, once it can be watched
//	clip    a short MP4, when somebody asks for one
//	index   catalogue and search rows follow the video
//	purge   everything of a deleted video goes
//
// To add a step: declare it in workflow.Steps, write its file here and list it in
// workerrole/main.go.
//
// Next: workerrole/internal/media, how a video is cut and encoded.
package step
