// Package consumer is the runtime of a worker: it receives messages, calls handlers,
// and settles each message by the error that its handler returns.
//
//	queues := workqueue.OpenAll(account, []workqueue.Spec{{Name: "mail", Steps: []string{"welcome"}, Pool: "light"}})
//	c, err := consumer.New(queues, consumer.Options{
//		Pools:    map[string]int{"light": 4},
//		Handlers: map[string]consumer.Handler{"welcome": consumer.Handle(sendWelcome)},
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
// The lease is renewed only while the work makes progress, and the work stops before the
// lease ends. Failures are recorded in the message, and after Spec.MaxFailures of them the
// item is poison. An interruption costs the item nothing.
//
// Next: workerrole/internal/pipeline, the handlers of Cutroom.
package consumer
