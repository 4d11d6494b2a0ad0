// Package handbook makes what pages do not say by hand: it puts the quoted lines of Go into
// docs/patterns, docs/recipes, docs/elsewhere.md and the stops of the path at /learn, and draws the
// diagrams of patterns, which the web role shows.
// The results are committed; a test of package e2e checks that they are current.
//
// After changing a diagram or quoted code: `go generate ./e2e`. It needs npm and Chromium
// only when a diagram has changed.
//
// Next: quote.go.
package handbook
