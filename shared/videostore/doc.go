// Package videostore keeps the truth about videos in table "videos". A video is one
// partition, so its rows can change in one entity-group transaction and be read with
// one query (paper rows T2 and T5).
//
//	PartitionKey  the video id: random, never append-only (T3), one for all rows of a video (some, T4)
//	RowKey        CLIP:<generation>:<first>:<n>   one clip, which is a step on request
//	              META                            the video: title, state, error …
//	              NEXT:<generation>               how many chunks are promised so far
//	              OUT:<time-ordered uuid>         outbox: messages promised, not yet known to be sent
//	              PLAN:<generation>               how the video is cut; written once
//	              STEP:<generation>:<step>:<n>    one step: state, claim, output
//
// Three more tables are inflight, idempotency and quotas. Six mechanisms live here:
//
//   - Outbox (outbox.go): one transaction writes a change and an OUT row with the message
//     that the change asks for. What is not sent then is sent by the next delivery of the
//     step or by the reconciler.
//   - Fence (claim.go, commit.go): a worker may lose its message without noticing. So it
//     commits only while the step row is as its claim left it (paper row Q17).
//   - Window (fan.go): only some chunks of a video are in the queues at a time (Q5).
//   - In-flight index (inflight.go): it names the videos that may have unfinished work.
//   - A repeated request does not create a second video (idempotency.go).
//   - Owners, and all together, have quotas (quota.go).
//
// Next: shared/playlist, which turns these rows into HLS.
package videostore
