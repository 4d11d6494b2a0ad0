// Package blobstore moves blobs: whole ones, streams of unknown length, files
// that resume where they stopped, and ranges. Every transfer is checked by MD5
// (paper row Q12), is made of small calls (Q14), and may be repeated after a
// lost reply (Q13).
//
// Containers are given by base name, such as video.MediaContainer.
//
// Next: shared/workqueue, which carries the messages.
package blobstore
