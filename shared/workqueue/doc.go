// Package workqueue carries work items over Azure Storage queues. A queue is
// declared ([Spec]). A message is sent, leased and settled; when its attempts are
// used up the item is poison. The package knows nothing of what the work is about.
//
// A received message is hidden from other workers until its visibility timeout
// ends, and only its newest pop receipt can settle it. A [Lease] is the only owner
// of that receipt. A lost reply of the service may have held the newest receipt:
// each method of Lease says what it does then.
//
// Next: shared/workqueue/consumer, the runtime that calls handlers for the messages.
package workqueue
