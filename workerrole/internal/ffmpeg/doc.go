// Package ffmpeg runs ffmpeg and ffprobe safely on media that strangers sent.
//
// Every call carries the same guards, built in one place (guard): a whitelist
// of containers and of protocols before the input, limits on pixels and
// streams, an empty environment, a process group of its own that dies with us.
// The address of a source may carry a signature; it never reaches an error.
//
// An exit code of ffmpeg proves nothing. This package runs commands and says
// what ffmpeg reported; package media decides whether the result is right.
//
// It is the only importer of ffmpeg-go, which builds the argument lists; the
// processes are ours.
//
// Next: workerrole/internal/media, which plans, encodes and verifies.
package ffmpeg
