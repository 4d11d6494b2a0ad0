package scenes

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

var (
	_ = register(programs, "keys-are-text", keysAreText)
	_ = register(programs, "query-classes", queryClasses)
)

// keysAreText shows the order of keys, padding, composite keys and what a key must not
// hold (T1, T6).
func keysAreText(s *Stage) {
	s.Ensure(nil, "bibs")
	rows := s.Table("client", "bibs")
	put := func(partition string, keys ...string) {
		for _, key := range keys {
			get(rows.Insert(Quiet(s.ctx), tablestore.Entity{PartitionKey: partition, RowKey: key}))
		}
	}
	claimList := func(partition, from string, want ...string) {
		var keys []string
		for row, err := range rows.Query(s.ctx, tablestore.Query{PartitionKey: partition, RowFrom: from}) {
			must(err)
			keys = append(keys, row.RowKey)
		}
		s.Claim(slices.Equal(keys, want), keys)
	}
	put("plain", "1", "2", "10", "111")
	claimList("plain", "", "1", "10", "111", "2")
	claimList("plain", "10", "10", "111", "2")
	put("padded", tablestore.Pad(1, 3), tablestore.Pad(2, 3), tablestore.Pad(10, 3), tablestore.Pad(111, 3))
	claimList("padded", tablestore.Pad(10, 3), "010", "111")

	// Values that hold the separator, joined carelessly and with care (T6).
	put("joined as they are", "A__B"+"__"+"C")
	_, err := rows.Insert(s.ctx, tablestore.Entity{PartitionKey: "joined as they are", RowKey: "A" + "__" + "B__C"})
	s.Claim(errors.Is(err, tablestore.ErrExists))
	a, b := tablestore.Join("A__B", "C"), tablestore.Join("A", "B__C")
	put("composite", a, b)
	s.Claim(a != b, a, b)
	forbidden(s, rows)
}

// forbidden sends a key with a character that keys must not hold. Azure answers 400
// OutOfRangeInput; the emulator may take it.
func forbidden(s *Stage, rows *tablestore.Table) {
	slash := tablestore.Entity{PartitionKey: "names", RowKey: "AC/DC"}
	_, err := s.Account("client").Table("bibs").AddEntity(s.ctx, get(json.Marshal(map[string]string{"PartitionKey": slash.PartitionKey, "RowKey": slash.RowKey})), nil)
	said := "the emulator took it; Azure answers 400 OutOfRangeInput"
	status, code, answered := azstore.Describe(err)
	if answered {
		said = fmt.Sprintf("the service refuses: %d %s", status, code)
	}
	s.Claim(err == nil || status == 400, said)
	_, err = rows.Insert(s.ctx, slash)
	s.Claim(errors.Is(err, tablestore.ErrLimit))
	key := tablestore.EscapeKey(slash.RowKey)
	get(rows.Insert(s.ctx, tablestore.Entity{PartitionKey: "names", RowKey: key}))
	s.Claim(get(tablestore.UnescapeKey(key)) == slash.RowKey, key)
}

// queryClasses puts the four classes of queries side by side (T5): what is shown
// against what the service has to read for it.
func queryClasses(s *Stage) {
	const partitions, perPartition = 4, 25
	s.Ensure(nil, "films")
	rows := s.Table("client", "films")
	var ops []tablestore.Op
	for p := range partitions {
		for n := range perPartition {
			topic := "ships"
			if p == 2 && n == 7 {
				topic = "harbours"
			}
			ops = append(ops, tablestore.Op{Kind: tablestore.OpUpsert, Entity: tablestore.Entity{
				PartitionKey: "channel-" + strconv.Itoa(p), RowKey: "film-" + tablestore.Pad(int64(n), 2), Props: map[string]any{"Topic": topic},
			}})
		}
	}
	must(rows.SubmitAll(Quiet(s.ctx), ops))
	s.Next()
	metered, meter := azstore.WithCounter(s.ctx)
	get(rows.Get(metered, "channel-2", "film-07"))
	s.Claim(meter.ByClass(tablestore.Point) == 1 && meter.Counts().Rows == 1)
	about := "Topic eq " + tablestore.Quote("harbours")
	ask := func(query tablestore.Query, reads int) { // of what the range of the query holds
		found := get(rows.First(s.ctx, query, 10))
		whole := query
		whole.Filter = ""
		inRange := get(rows.First(Quiet(s.ctx), whole, 1000))
		s.Claim(len(found) == 1 && len(inRange) == reads, query.Cost(), len(inRange))
	}
	ask(tablestore.Query{PartitionKey: "channel-2", Filter: about}, perPartition)
	ask(tablestore.Query{PartitionFrom: "channel-1", PartitionTo: "channel-3", Filter: about}, 2*perPartition)
	ask(tablestore.Query{Filter: about}, partitions*perPartition)
	_, _, err := rows.Page(s.ctx, tablestore.Query{Filter: about, Class: tablestore.RowRange}, "")
	s.Claim(errors.Is(err, tablestore.ErrClass))

	seen, pages, token := 0, 0, ""
	for ; pages == 0 || token != ""; pages++ {
		if pages > perPartition {
			must(fmt.Errorf("%d pages and no end", pages))
		}
		page, next, err := rows.Page(s.ctx, tablestore.Query{PartitionKey: "channel-0", PageSize: 10}, token)
		must(err)
		seen, token = seen+len(page), next
	}
	s.Claim(seen == perPartition, pages, seen)
}
