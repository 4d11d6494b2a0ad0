// Package partitions stands between the table clients and Azurite and behaves
// like the partition servers that Azurite does not have (paper rows T3, T9, T10):
// a proxy that refuses, splits, moves and cuts pages as Azure may.
//
// # What is modelled
//
//   - Budgets, as token buckets of one second: entities per second of one
//     PartitionKey (2,000; 500 in the paper's time), of one partition server, and
//     requests per second of the account (20,000). Over a budget: 503 ServerBusy,
//     nothing applied, no Retry-After.
//   - A transaction costs its operations, a query what it returns, at least 1.
//   - Every table begins as one range of PartitionKeys on one server. A range
//     that stays hot is split where it halves the load, always between two
//     PartitionKeys, and one half moves to the least busy server. A range with a
//     single busy PartitionKey cannot be split. Cold neighbours merge.
//   - A range that moves answers nothing for a while: 503 ServerBusy, 500
//     OperationTimedOut or a reset connection. Requests that are in its server's
//     hands when the move begins are applied, and their replies are lost (Q13).
//   - A query ends at the end of a range, with a continuation token that names
//     the next one; such a page may be short or empty. Some queries are cut
//     earlier, as by the service's limit of five seconds.
//
// # What is not
//
// Azure publishes no number for a server's share, for how long a range must be
// hot, or for how a move goes on inside: those here are assumptions, all of them
// in Config. Sizes of rows, the cost of a scan inside of the server, latency
// under load, replication, and the neighbours on a real server are left out.
// Storage itself is Azurite; every latency is its own.
//
// Signatures of the table service cover the date and the path, neither host nor
// query, so requests pass with their signatures as they are.
//
// Begin with proxy.go; model.go is the model, without HTTP. stress.go is the partition
// laboratory: it aims a growing load at tables whose rows get their PartitionKey in different
// ways (keys.go), and verdict.go says which key is too coarse for it.
package partitions
