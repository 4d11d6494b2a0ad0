// Package engine keeps the truth about subjects, and runs steps that make something of them. It
// does not know what a subject is: a product declares its steps, embeds [Meta] in its document
// of a subject and [Plan] in its plan, and gives both to [New]. A subject is one partition of
// the product's table, so its rows can change in one entity-group transaction and be read with
// one query (paper rows T2 and T5).
//
//	PartitionKey  the subject's id: random, never append-only (T3), one for all its rows (some, T4)
//	RowKey        META                            the subject: the product's document
//	              NEXT:<generation>               how many parts are promised so far
//	              OUT:<time-ordered uuid>         outbox: messages promised, not yet known to be sent
//	              PLAN:<generation>               what is to be made; written once
//	              STEP:<generation>:<step>:<n>    one run of a step: state, claim, output
//	              <STEP'S NAME>:…                 one run of a step on request
//
// Two more tables are inflight and idempotency. Five mechanisms live here:
//
//   - Outbox (outbox.go): one transaction writes a change and an OUT row with the message
//     that the change asks for. What is not sent then is sent by the next delivery of the
//     step or by the reconciler.
//   - Fence (claim.go, commit.go): a worker may lose its message without noticing. So it
//     commits only while the step row is as its claim left it (paper row Q17).
//   - Window (fan.go): only some parts of a subject are in the queues at a time (Q5).
//   - In-flight index (inflight.go): it names the subjects that may have unfinished work.
//   - A repeated request does not create a second subject (idempotency.go).
//
// Next: shared/engine/runner, the order of writes.
package engine
