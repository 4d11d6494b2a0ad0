// Package step holds the steps, one file each, in the order in which a video
// meets them:
//
//	probe   what is it, how is it cut; fans out          → encode, audio
//	encode  one chunk, all renditions                    → the next chunk; finish, when it is the last
//	audio   one portion of the sound                     → finish, when it is the last
//	finish  playlists, poster, storyboard, MP4           → index
//	clip    a short MP4, when somebody asks for one
//	index   catalogue and search rows follow the video
//	purge   everything of a deleted video goes
//
// To add a step: write its file here, give it a line in workerrole/main.go and,
// if it needs a queue of its own, a line in workflow.Specs.
//
// Next: workerrole/internal/media, how a video is cut and encoded.
package step
