// Package ffmpeg runs ffmpeg and ffprobe safely on media that strangers sent.
//
// Every call carries the same guards, built in one place (guard): a whitelist
// of containers and of protocols before the input, limits on pixels and
// streams, an environment without keys, a process group of its own that dies with us,
// limits of what a process may take. ffmpeg reads a source through us (Serve),
// so that we know what became of every read.
//
// An exit code of 0 proves nothing: package media decides whether the result is
// right. A bad end is evidence about the bytes (RunError), or trouble that the
// run met (DependencyError).
//
// To add a command: copy clip.go, which makes a file, or loudness.go, which reads
// a report. The global options make it report its progress (Runs); without that
// the item of one that runs for more than a minute counts as stalled.
//
// It is the only importer of ffmpeg-go, which builds the argument lists; the
// processes are ours.
//
// Next: workerrole/internal/media, which plans, encodes and verifies.
package ffmpeg
