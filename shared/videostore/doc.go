// Package videostore keeps the truth about videos: table "videos", one
// partition per video, so that everything about one video can change in one
// entity-group transaction and be read with one query (paper rows T2 and T5).
//
//	PartitionKey  the video id: random, unique, never append-only (T3, T4)
//	RowKey        CLIP:<generation>:<first>:<n>   one clip, which is a step that somebody asked for
//	              META                            the video: title, state, error …
//	              NEXT:<generation>               how many chunks are promised so far
//	              OUT:<time-ordered uuid>         outbox: messages promised, not yet known to be sent
//	              PART:<generation>:audio:<n>     committed run of audio segments
//	              PLAN:<generation>               how the video is cut; written once
//	              STEP:<generation>:<step>:<n>    one step: state, claim, output
//
// Beside it stand the tables inflight, idempotency and budgets. Four mechanisms
// live here and everything else leans on them:
//
//   - Outbox (outbox.go): a state change and the intent to enqueue what follows
//     are one transaction. A crash between them cannot happen; a crash after
//     them leaves an OUT row, which the next visitor or the reconciler sends.
//   - Fence (claim.go): a worker claims a step row and may commit only while
//     the row is as it left it. A worker that lost its message loses here too,
//     whatever it believes (paper row Q17).
//   - Window (fan.go): only some chunks of a video are in the queues at a time;
//     each commit promises the next (paper row Q5).
//   - In-flight index (inflight.go): the reconciler finds unfinished videos
//     without scanning the table of all videos (T5).
//
// Ids are inserted once, whatever clients repeat (idempotency.go), and work that
// anybody may ask for has a budget (budget.go).
//
// Next: shared/playlist, which turns these rows into HLS.
package videostore
