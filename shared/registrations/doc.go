// Package registrations stores the runners of races: the paper's own example
// of dual RowKeys and composite keys (rows T2, T6, T7, S1), made useful.
//
// # Table registrations
//
// PartitionKey: event and distance, `2011 New York City Marathon__Full`. The
// granularity is "some" (T4): a race is asked for as a whole, and every query below
// is one row range. Each runner has three rows, always written in one entity-group
// transaction (T2), so that no reader sees a runner in one order and not in the
// other:
//
//	BIB:01234__John__M__55   in the order of the bibs
//	AGE:055__1234__John__M   in the order of the ages
//	GUARD:01234              keeps the bib unique
//
// The paper's two keys alone would let a second runner take bib 1234, because
// another name makes another key. The guard's key holds the bib and nothing else:
// inserting it fails when the bib is taken, and one point read finds it.
//
// In `BIB:` the bib is padded to five digits, so that keys sort as numbers do (T1).
// In `AGE:` it is not padded, as in the paper, so runners of one age come in the
// order of their bibs as text, 1234 before 55.
//
// All three rows carry the whole registration, so each query is one range and needs
// no second read. Each row has an ETag of its own, so the version of a registration
// is the property Version, the same in all three.
//
//	VIDEO:<time of the first frame, Unix milliseconds, 13 digits>__<id>
//
// are the videos that show the race, kept equal to them by shared/indexrows (T8);
// PartitionKey `~<id>`, RowKey `REF` is the back-reference. PartitionKey `~events` has a
// row for each event that has a start list.
//
// Next: webrole/internal/startlist, how a start list is read.
package registrations
