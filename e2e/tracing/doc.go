// Package tracing tests that the spans of a video are one trace, from the request that
// brought it to "ready", by collecting them as a collector would.
package tracing
