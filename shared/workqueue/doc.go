// Package workqueue carries work items over Azure Storage queues: a queue is
// declared ([Spec]), a message is sent, leased, settled and, when all attempts are
// used up, put aside as poison. It knows nothing of what the work is about.
//
// The heart of it is the [Lease]. A received message is hidden from everybody
// else until its visibility ends; whoever holds the newest pop receipt owns it.
// Lease is the only owner of that receipt. Its rules come from what the service
// does when a reply is lost, and are written down at each method.
//
// How long a message stays hidden is a policy of the queue, published in the
// queue's metadata, read with the same request as its length, and raised when
// deletes come too late (paper row Q16d): see [Policy] and [Queue.Tune].
//
// Next: shared/workqueue/consumer, the runtime that turns leases into work.
package workqueue
