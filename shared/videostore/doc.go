// Package videostore is package engine for videos, with the rows and the limits that only
// videos have:
//
//   - what rows say of a film: playlists, progress, what a viewer misses (view.go);
//   - quotas of owners, and of all together (quota.go).
//
// Next: shared/playlist, which turns these rows into HLS.
package videostore
