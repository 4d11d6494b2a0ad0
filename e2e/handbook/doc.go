// Package handbook makes what the pages of docs/patterns do not say by hand. It puts
// the quoted lines of Go into the pages, draws their diagrams, and renders them for the
// web role, which serves them at /learn and /patterns. The results are committed;
// a test of package e2e checks that they are what sources and pages make.
//
// After changing a page of docs/patterns, docs/papers.md or quoted code: `go generate
// ./e2e`. It needs npm and Chromium only when a diagram has changed.
//
// Next: snippet.go.
package handbook
