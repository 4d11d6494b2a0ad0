// Package differential draws films as people have them, puts them through the built
// system, and compares what is served with one pass of ffmpeg over the same file.
package differential
