// Package videostore is package engine for videos, with what rows say of a film: playlists,
// progress, what a viewer misses (view.go).
//
// Next: shared/playlist, which turns these rows into HLS.
package videostore
