// Package indexrows keeps the rows that are derived from a video equal to the
// video (paper row T8). The catalogue and the search index are made of such rows.
//
// Derived rows lie in many partitions, and no transaction spans two. A worker may die
// between two writes, and several may index the same video at once. The wrong end would
// be a row that is never removed.
//
// # The back-reference
//
// Each video has one row per index that lists its derived rows: partition `~<id>`
// of the index's home table. It tells which rows an old title left behind. It is
// only ever replaced under its ETag. It holds two lists: the rows that were
// written, and a note of every run that may still be writing.
//
// # A run
//
//  1. Write a note into the back-reference: the rows that this run may write.
//  2. Read the truth again. If it differs from what the rows were derived from,
//     start over. So a run that would bring back a deleted video either sees the
//     deletion here, or the deletion sees its note.
//  3. Write the wanted rows, then remove the unwanted ones. What shares a partition
//     is one entity-group transaction (T2). New rows come first, so a video that
//     moves from one list to another is for a moment in both, and never in none.
//  4. Replace the note by the list of what is written now. If the back-reference
//     has changed since step 1, another run may have overwritten our rows: start over.
//
// A run that dies leaves its note, by which any later run removes what it may have
// written. Runs may be repeated, reordered and run side by side; when all of them have
// ended, the rows are those of the video as it is.
//
// # Waiting for other runs
//
// A run cannot tell whether another one is dead or slow, and a slow one may still
// write. So it keeps another run's note for [Expiry]. Until then a video that is
// gone has no derived rows, but its back-reference stays, and Sync returns
// [ErrBusy]: the caller comes back later.
//
// Next: shared/catalog, the first index made this way.
package indexrows
