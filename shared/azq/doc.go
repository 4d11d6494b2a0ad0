// Package azq is a queue runtime for Azure Storage queues. It carries work items over queues,
// calls handlers for them, and settles each message by the error that its handler returns. It
// knows nothing of what the work is about.
//
//	client := azq.Open(account, azq.Options{}) // one queue, "default"
//	azq.Handle(client, func(ctx context.Context, job *azq.Job[Letter]) error { … })
//	id, err := client.Send(ctx, Letter{To: "Ada"})
//	err = client.Run(ctx)
//
//	poller (one per queue)            poller.go   receives messages, only into free slots
//	  └─ pool (one per kind of work)  pool.go     says which queue gets the next free slot
//	       └─ owner (one per message) owner.go    renews the lease while the handler works
//	            └─ settle             settle.go   deletes, retries, releases, snoozes, poisons
//
// A received message is hidden from other workers until its visibility timeout ends, and only
// its newest pop receipt can settle it. A [Lease] is the only owner of that receipt. A lost
// reply of the service may have held the newest receipt: each method of Lease says what it
// does then. The lease is renewed only while the work makes progress, and the work stops
// before the lease ends. Failures are recorded in the message, and after Spec.MaxFailures of
// them the item is poison. An interruption costs the item nothing.
package azq
