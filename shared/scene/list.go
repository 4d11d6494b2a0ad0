package scene

// all is the one list. A scene's program has the same name in the list of e2e/scenes;
// a test there holds the two together.
var all = []Scene{
	{
		Name: "a-film", Title: "A film, from the upload to the search", Rows: []string{"Q2"},
		Learn: "The web role stores and asks; the worker role converts and indexes. Between them there is nothing but blobs, a queue and tables.",
		Page:  "patterns/competing-consumers.md",
	},
	{
		Name: "papers-scene", Title: "A consumer dies with a message in its hands", Rows: []string{"Q11", "Q7"},
		Learn: "A received message is hidden and not gone. When its consumer dies, the message becomes visible again and somebody else does the work.",
		Page:  "patterns/producer-consumer-scenario.md",
	},
	{
		Name: "killed-in-the-middle", Title: "Killed in the middle of a film", Rows: []string{"Q3", "Q8", "Q16c"},
		Learn: "Work is cut into portions, and each is written before it is recorded. So a worker may be killed at any moment: the next one goes on after the last recorded portion, and may repeat one without harm.",
		Page:  "patterns/idempotent-steps-and-the-fence.md",
	},
	{
		Name: "stale-receipt", Title: "The frozen worker and its stale receipt", Rows: []string{"Q17"},
		Learn: "A pop receipt is worth something until somebody else receives the message. A worker that slept too long is refused, and it must drop the item and go on.",
		Page:  "patterns/visibility-and-leases.md",
	},
	{
		Name: "fixed-or-renewed", Title: "A fixed visibility timeout against a renewed lease", Rows: []string{"Q16a"},
		Learn: "A fixed timeout must cover the longest work, so a crash costs the rest of it: the paper's 30, 10 and 20 minutes. A short lease that is renewed costs little after a crash, and requests while it is kept.",
		Page:  "patterns/visibility-and-leases.md",
	},
	{
		Name: "late-deletes", Title: "Late deletes raise the visibility timeout for everybody", Rows: []string{"Q16d"},
		Learn: "A worker whose delete comes too late has worked for nothing. Workers count that, raise the timeout, and tell every role through the queue's own metadata.",
		Page:  "patterns/adaptive-visibility.md",
	},
	{
		Name: "bulk-and-critical", Title: "Bulk work, critical work and a noisy neighbour", Rows: []string{"Q5", "Q16b"},
		Learn: "A queue is first in, first out. What must not wait gets a queue of its own, and a slot that bulk work cannot take; customers get lanes.",
		Page:  "patterns/priority-queues.md",
	},
	{
		Name: "burst", Title: "A burst without workers, and workers by length", Rows: []string{"Q4", "Q7", "Q18"},
		Learn: "A queue takes a burst without refusing anybody. Its length says how many workers are wanted.",
		Page:  "patterns/competing-consumers.md",
	},
	{
		Name: "poison-and-redrive", Title: "Poison, put aside and sent again", Rows: []string{"Q3"},
		Learn: "A message is deleted only after its work succeeded. One that never succeeds is put aside with its reason, so that it does not come back for ever, and can be sent again.",
		Page:  "patterns/poison-messages.md",
	},
	{
		Name: "three-workers", Title: "An old worker, a new one, and one in another language", Rows: []string{"Q1", "Q6", "Q19"},
		Learn: "Workers share a queue and nothing else. What one of them does not know stays in the message, what is too new for it goes back, and any bytes survive the trip.",
		Page:  "patterns/message-format.md",
	},
	{
		Name: "too-large", Title: "A message that is too large", Rows: []string{"Q9"},
		Learn: "A message holds 64 KiB. What is larger goes to a blob, and the message carries its name. How long a message lives is a choice, and the default loses it after 7 days.",
		Page:  "patterns/claim-check.md",
	},
	{
		Name: "queue-vocabulary", Title: "All words that a queue understands", Rows: []string{"Q10"},
		Learn: "Create, list, put, peek, get, update, delete, metadata with the length, clear: every operation of the service, each with its request.",
		Page:  "patterns/queue-vocabulary.md",
	},
	{
		Name: "corrupted-and-split", Title: "Corrupted on the way, and split into blocks", Rows: []string{"Q12", "Q14"},
		Learn: "Without a checksum a changed bit is stored as if it were right. A large transfer is many small ones, and goes on where it stopped.",
		Page:  "patterns/valet-key-upload.md",
	},
	{
		Name: "while-it-uploads", Title: "The beginning is made while the end is sent", Rows: []string{"Q12", "Q14"},
		Learn: "A film that is sent in parts, each written once, can be worked on before the last one came. What was made early is what would have been made later.",
		Page:  "patterns/encode-while-uploading.md",
	},
	{
		Name: "lost-replies", Title: "Done, and the answer was lost", Rows: []string{"Q13"},
		Learn: "After a broken connection nobody knows whether the request was done. It is repeated, and the repetition must recognise its own work.",
		Page:  "patterns/retries-and-unknown-outcomes.md",
	},
	{
		Name: "one-error-three-names", Title: "One error, three names", Rows: []string{"Q15"},
		Learn: "An error has a status for machines, a code for the program and a sentence for people. The same thing has another code in each service, and a transaction hides it inside of a success.",
		Page:  "patterns/retries-and-unknown-outcomes.md",
	},
	{
		Name: "retries", Title: "None, fixed, exponential: three clients meet a busy service", Rows: []string{"T10", "T11"},
		Learn: "Growing pauses leave a busy service alone, and a random spread keeps a herd of clients apart. What a repetition cannot change is not repeated.",
		Page:  "patterns/retries-and-unknown-outcomes.md",
	},
	{
		Name: "keys-are-text", Title: "Keys are text: 111 comes before 2", Rows: []string{"T1", "T6"},
		Learn: "A table has one order, that of its keys as text. Numbers are padded, several values are joined so that different values give different keys, and some characters are forbidden.",
		Page:  "patterns/dual-rowkey-and-composite-keys.md",
	},
	{
		Name: "query-classes", Title: "Four ways to ask one question", Rows: []string{"T5"},
		Learn: "A query costs what it reads and not what it shows. Point, row range, partition range and scan differ by factors, and only the token says whether a list has ended.",
		Page:  "patterns/continuation-tokens.md",
	},
	{
		Name: "the-race", Title: "The race: bib and age in one transaction", Rows: []string{"T2", "T7", "S1"},
		Learn: "The same runner is stored under two RowKeys, so that two questions are both a range of keys. One transaction writes them all, or none of them, whatever goes wrong.",
		Page:  "patterns/dual-rowkey-and-composite-keys.md",
	},
	{
		Name: "choosing-a-key", Title: "Choosing a key", Rows: []string{"T4"},
		Learn: "Three questions lead to a PartitionKey: what a reader knows, whether rows of one subject belong together, and how busy the busiest subject is.",
		Page:  "patterns/synthetic-keys.md",
		Questions: []Question{
			{"knows", "Your table: what does its reader know?", []Option{
				{"subject", "the subject, such as a race, a month or a film"},
				{"nothing", "nothing: it wants every row"},
			}},
			{"together", "Are several rows of one subject changed in one transaction, or listed together?", []Option{
				{"yes", "yes"},
				{"no", "no: each row is read by its own key"},
			}},
			{"busy", "How many rows a second does the busiest subject get?", []Option{
				{"few", "a few"},
				{"hundreds", "hundreds"},
				{"thousands", "thousands"},
			}},
		},
	},
	{
		Name: "hot-keys", Title: "Hot keys, and keys that spread", Rows: []string{"T3", "T9", "S2", "S3"},
		Learn: "One PartitionKey takes 2,000 rows of 1 KiB a second and hardly more, and keys that only grow do not help. A suffix spreads the load; a random one is paid for by readers, a computed one is not.",
		Page:  "patterns/partition-stress.md",
	},
	{
		Name: "partition-splits", Title: "A partition splits while you read and write", Rows: []string{"T10"},
		Learn: "While Azure moves a partition, requests are refused or their answers are lost, and pages end early. Retries that recognise their own work lose no update, and tokens lead to the end.",
		Page:  "patterns/continuation-tokens.md",
	},
	{
		Name: "index-follows", Title: "The index that follows", Rows: []string{"T8"},
		Learn: "Copies in other partitions cannot change in the same transaction. A step that may be repeated makes them follow, whatever was interrupted.",
		Page:  "patterns/index-table-search.md",
	},
}
