// Package consumer is the runtime of a worker: it turns messages into calls of
// handlers and the results of handlers into the fate of messages.
//
//	queues := workqueue.OpenAll(account, []workqueue.Spec{{Name: "mail", Steps: []string{"welcome"}, Pool: "light"}})
//	c, err := consumer.New(queues, consumer.Options{
//		Pools:    map[string]int{"light": 4},
//		Handlers: map[string]consumer.Handler{"welcome": consumer.Handle(sendWelcome)},
//	})
//	…
//	c.Run(ctx)
//
// It knows nothing of what the items are about. docs/take-the-runtime.md is a whole
// program.
//
//	poller (one per queue)            poller.go   asks for messages, only into free slots
//	  └─ pool (one per kind of work)  pool.go     says whose turn the next free slot is
//	       └─ owner (one per message) owner.go    keeps the lease while the handler works
//	            └─ settle             settle.go   deletes, gives back or poisons
//
// Everything about a message that can go wrong is decided in owner.go and
// settle.go, and told in this order: the lease is renewed only while the work
// moves; the work stops before the lease ends; only recorded failures make an
// item poison; being interrupted costs nothing.
//
// Next: workerrole/internal/pipeline, the handlers of Cutroom.
package consumer
