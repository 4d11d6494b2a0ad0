// Package tablestore reads and writes Azure tables and keeps the service's
// limits on this side of the wire: keys (paper row T1), entity-group
// transactions (T2) and query classes (T5). Azurite is laxer than Azure, so a
// mistake that only the service would refuse would pass every test.
//
// Every write carries a property OpId, unique to the call. When a reply is lost
// and the repeated request meets a conflict, the row's OpId tells whether the
// first try had won (row Q13).
//
// Next: shared/blobstore, the same care for blobs.
package tablestore
