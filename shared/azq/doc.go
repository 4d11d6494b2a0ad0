// Package azq is a queue runtime for Azure Storage queues. It carries work items over queues,
// calls handlers for them, and settles each message by the error that its handler returns. It
// knows nothing of what the work is about.
//
//	queues := azq.OpenAll(account, []azq.Spec{{Name: "mail", Steps: []string{"welcome"}, Pool: "light"}})
//	c, err := azq.NewConsumer(queues, azq.Options{
//		Pools:    map[string]int{"light": 4},
//		Handlers: map[string]azq.Handler{"welcome": azq.Handle(sendWelcome)},
//	})
//	…
//	c.Run(ctx)
//
// docs/take-the-runtime.md has a whole program.
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
