// Package ffmpeg runs ffmpeg and ffprobe safely on media that strangers sent
// (docs/patterns/safe-ffmpeg.md). Every call carries the same guards, built in one place (guard),
// and ffmpeg reads a source through us (Serve).
//
// An exit code of 0 proves nothing: package media decides whether the result is right. A bad end
// is evidence about the bytes (RunError), or trouble that the run met (azq.Trouble).
//
// To add a command: copy clip.go, which makes a file, or loudness.go, which reads a report. The
// global options make it report its progress (Runs); without that the item of one that runs for
// more than a minute counts as stalled.
//
// Next: workerrole/internal/media, which plans, encodes and verifies.
package ffmpeg
