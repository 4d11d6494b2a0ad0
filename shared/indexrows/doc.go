// Package indexrows keeps the rows that are derived from a video equal to the video (paper row
// T8). Derived rows lie in many partitions, and no transaction spans two. A worker may die
// between two writes, and several may index the same video at once. So each video has a
// back-reference in each index, which lists its derived rows, and a note of every run that may
// still be writing: docs/patterns/index-table-search.md has the four steps of a run.
//
// A run cannot tell whether another one is dead or slow. So it keeps another run's note for
// [Expiry]. Until then a video that is gone has no derived rows, but its back-reference stays,
// and Sync returns [ErrBusy]: the caller comes back later.
//
// Next: shared/catalog, the first index made this way.
package indexrows
