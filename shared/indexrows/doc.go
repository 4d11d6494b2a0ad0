// Package indexrows keeps the rows that are derived from a video equal to the
// video, although they lie in many partitions and several workers may write
// them at the same moment (paper row T8). The catalogue and the search index
// are both made of such rows.
//
// # The back-reference
//
// Every video has one row per index that lists the derived rows: partition
// `~<id>` of the index's home table. Without it, nobody could tell which rows
// an old title left behind. It changes only by compare-and-swap, and it knows
// two things: the rows that are written, and the runs that may be writing
// others right now.
//
// # A run
//
//  1. note the rows that this run is about to write in the back-reference;
//  2. read the truth again: if the video is not what the rows were made of,
//     start over. So a deletion either is seen here, or sees the note;
//  3. write the wanted rows, together with the removal of unwanted ones where
//     they share a partition (one entity-group transaction, T2), then remove
//     the unwanted ones elsewhere. A video that moves is never nowhere;
//  4. swap the note for the list of what is written now. If somebody else
//     has touched the back-reference meanwhile, the two may have overtaken each
//     other: start over.
//
// A run that dies leaves its note, so the repeated queue item, or any later
// run, finds and removes what the dead one may have written. Runs may be
// repeated, reordered and run side by side; when all of them have ended, the
// rows are those of the video as it is.
//
// # The one thing to wait for
//
// A note of somebody else is not dropped before [Expiry], because a run that is
// merely slow could still write. A video that is gone while such a note is young
// has no rows left, but its back-reference stays, and Sync says [ErrBusy]: come
// back later.
package indexrows
