package scene

// all is the one list. A scene's program has the same name in the list of e2e/scenes;
// a test there holds the two together.
var all = []Scene{
	{
		Name: "papers-scene", Title: "A consumer dies with a message in its hands", Rows: []string{"Q11", "Q7"},
		Learn: "A received message is hidden and not gone. When its consumer dies, the message becomes visible again and somebody else does the work.",
		Page:  "patterns/producer-consumer-scenario.md",
	},
	{
		Name: "stale-receipt", Title: "The frozen worker and its stale receipt", Rows: []string{"Q17"},
		Learn: "A pop receipt is worth something until somebody else receives the message. A worker that slept too long is refused, and it must drop the item and go on.",
		Page:  "patterns/visibility-and-leases.md",
	},
	{
		Name: "the-race", Title: "The race: bib and age in one transaction", Rows: []string{"T2", "T7", "S1"},
		Learn: "The same runner is stored under two RowKeys, so that two questions are both a range of keys. One transaction writes them all, or none of them, whatever goes wrong.",
		Page:  "patterns/dual-rowkey-and-composite-keys.md",
	},
}
