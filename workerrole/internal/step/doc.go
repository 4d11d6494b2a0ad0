// Package step holds the steps, one file each, in the order in which they run:
//
//	probe     finds out what it is, makes the plan       → encode, audio
//	encode    one chunk, all renditions                  → the next chunk; finish, when it is the last
//	audio     one portion of the sound                   → finish, when it is the last
//	finish    playlists, poster, storyboard, MP4         → digest, loudness, index
//	digest    finds an upload of the same video, when the video is ready
//	loudness  measures the sound of a video that is ready
//	clip      a short MP4, on request
//	captions  clean WebVTT of an uploaded file
//	index     makes catalogue and search follow META
//	purge     removes everything of a deleted video
//
// To add a step: declare it in workflow.Steps, write its file here and list it in
// workerrole/main.go.
//
// Next: workerrole/internal/media, how a video is cut and encoded.
package step
