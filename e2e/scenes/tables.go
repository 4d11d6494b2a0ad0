package scenes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/tablestore"
)

// refusedTransaction inserts a row that exists, in a transaction of the bare SDK.
func refusedTransaction(ctx context.Context, account *azstorage.Account) error {
	row := []byte(`{"PartitionKey":"film","RowKey":"META"}`)
	if _, err := account.Table("films").AddEntity(Quiet(ctx), row, nil); err != nil {
		return err
	}
	_, err := account.Table("films").SubmitTransaction(ctx, []aztables.TransactionAction{{ActionType: aztables.TransactionTypeAdd, Entity: row}}, nil)
	return err
}

// keysAreText shows the order of keys, padding, composite keys and what a key must not
// hold (T1, T6).
func keysAreText(ctx context.Context, s *Stage) error {
	account := s.Account("client")
	if err := account.Ensure(Quiet(ctx), nil, nil, []string{"bibs"}); err != nil {
		return err
	}
	rows := tablestore.New(account.Table("bibs"))
	put := func(partition string, keys ...string) error {
		for _, key := range keys {
			if _, err := rows.Insert(Quiet(ctx), tablestore.Entity{PartitionKey: partition, RowKey: key}); err != nil {
				return err
			}
		}
		return nil
	}
	list := func(partition, from string) (keys []string, err error) {
		for row, err := range rows.Query(ctx, tablestore.Query{PartitionKey: partition, RowFrom: from}) {
			if err != nil {
				return nil, err
			}
			keys = append(keys, row.RowKey)
		}
		return keys, nil
	}
	s.Say("Bibs 1, 2, 10 and 111 are RowKeys, as somebody would write them. In which order do they come?")
	if err := put("plain", "1", "2", "10", "111"); err != nil {
		return err
	}
	got, err := list("plain", "")
	if err != nil {
		return err
	}
	s.Claim(slices.Equal(got, []string{"1", "10", "111", "2"}), "as text: %q. 111 comes before 2", got)
	if got, err = list("plain", "10"); err != nil {
		return err
	}
	s.Claim(slices.Equal(got, []string{"10", "111", "2"}), "so bibs from 10 on are %q: 2 is among them", got)

	s.Say("The same bibs, padded with zeros to a fixed width.")
	for _, bib := range []int64{1, 2, 10, 111} {
		if err := put("padded", tablestore.Pad(bib, 3)); err != nil {
			return err
		}
	}
	if got, err = list("padded", tablestore.Pad(10, 3)); err != nil {
		return err
	}
	s.Claim(slices.Equal(got, []string{"010", "111"}), "bibs from 10 on are %q", got)

	if err := composite(ctx, s, rows, put); err != nil {
		return err
	}
	return forbidden(ctx, s, account, rows)
}

// composite joins values that hold the separator, carelessly and with care (T6).
func composite(ctx context.Context, s *Stage, rows *tablestore.Table, put func(partition string, keys ...string) error) error {
	s.Say("A key of more than two values is composed of them. What if a value holds the separator? Somebody joins them as they are: A__B and C, then A and B__C.")
	if err := put("joined as they are", "A__B"+"__"+"C"); err != nil {
		return err
	}
	_, err := rows.Insert(ctx, tablestore.Entity{PartitionKey: "joined as they are", RowKey: "A" + "__" + "B__C"})
	s.Claim(errors.Is(err, tablestore.ErrExists), "409: two different runners have one key, and the second cannot register")
	s.Say("Our keys escape the separator inside of a value.")
	a, b := tablestore.Join("A__B", "C"), tablestore.Join("A", "B__C")
	s.Claim(a != b, "%q and %q", a, b)
	return put("composite", a, b)
}

// forbidden sends a key with a character that keys must not hold.
func forbidden(ctx context.Context, s *Stage, account *azstorage.Account, rows *tablestore.Table) error {
	s.Say("A name with a slash. The service forbids / \\ # ? and control characters in keys; the bare SDK sends them all the same.")
	body, err := json.Marshal(map[string]string{"PartitionKey": "names", "RowKey": "AC/DC"})
	if err != nil {
		return err
	}
	_, err = account.Table("bibs").AddEntity(ctx, body, nil)
	if status, code, answered := azstorage.Describe(err); answered {
		s.Claim(status == 400, "the service refuses: %d %s", status, code)
	} else {
		s.Means("The emulator took it. Azure answers 400 OutOfRangeInput.")
	}
	_, err = rows.Insert(ctx, tablestore.Entity{PartitionKey: "names", RowKey: "AC/DC"})
	s.Claim(errors.Is(err, tablestore.ErrLimit), "our tables refuse it and send nothing")
	key := tablestore.EscapeKey("AC/DC")
	if _, err := rows.Insert(ctx, tablestore.Entity{PartitionKey: "names", RowKey: key}); err != nil {
		return err
	}
	back, err := tablestore.UnescapeKey(key)
	if err != nil {
		return err
	}
	s.Claim(back == "AC/DC", "escaped it is the key %q, which can be read back", key)
	return nil
}

// queryClasses puts the four classes of queries side by side (T5): what is shown
// against what the service has to read for it.
func queryClasses(ctx context.Context, s *Stage) error {
	const partitions, perPartition = 4, 25
	account := s.Account("client")
	if err := account.Ensure(Quiet(ctx), nil, nil, []string{"films"}); err != nil {
		return err
	}
	rows := tablestore.New(account.Table("films"))
	s.Say("A table of %d channels with %d films each: %d rows. One question in four ways: which films of channel 2 are about harbours? There is one, number 7.", partitions, perPartition, partitions*perPartition)
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
	if err := rows.SubmitAll(Quiet(ctx), ops); err != nil {
		return err
	}
	s.Say("Point: both keys are known. One row is read.")
	metered, meter := azstorage.WithCounter(ctx)
	if _, err := rows.Get(metered, "channel-2", "film-07"); err != nil {
		return err
	}
	s.Claim(meter.ByClass(tablestore.Point) == 1 && meter.EntitiesRead() == 1, "point: 1 row shown, 1 read for it")
	about := "Topic eq " + tablestore.Quote("harbours")
	for _, way := range []struct {
		say   string
		query tablestore.Query
		reads int // what the range of the query holds
	}{
		{"Row range: the channel is known. The service reads its rows, and filters.", tablestore.Query{PartitionKey: "channel-2", Filter: about}, perPartition},
		{"Partition range: some channels are known. The service reads all of theirs.", tablestore.Query{PartitionFrom: "channel-1", PartitionTo: "channel-3", Filter: about}, 2 * perPartition},
		{"Scan: only the topic is known. The service reads the whole table, on every server that has a part of it.", tablestore.Query{Filter: about}, partitions * perPartition},
	} {
		if err := askOneWay(ctx, s, rows, way.say, way.query, way.reads); err != nil {
			return err
		}
	}
	s.Say("A caller declares what it is ready to pay. A query that is dearer is refused before it is sent, so a scan cannot slip into a page.")
	_, _, err := rows.Page(ctx, tablestore.Query{Filter: about, Class: tablestore.RowRange}, "")
	s.Claim(errors.Is(err, tablestore.ErrClass), "the scan that was declared as a row range is refused")
	return pages(ctx, s, rows, perPartition)
}

// askOneWay tells a query, and checks what its range holds by asking without its filter.
func askOneWay(ctx context.Context, s *Stage, rows *tablestore.Table, say string, query tablestore.Query, reads int) error {
	s.Say("%s", say)
	found, err := rows.First(ctx, query, 10)
	if err != nil {
		return err
	}
	whole := query
	whole.Filter = ""
	inRange, err := rows.First(Quiet(ctx), whole, 1000)
	if err != nil {
		return err
	}
	s.Claim(len(found) == 1 && len(inRange) == reads, "%s: 1 row shown, %d read for it", query.Cost(), len(inRange))
	return nil
}

// pages follows continuation tokens.
func pages(ctx context.Context, s *Stage, rows *tablestore.Table, all int) error {
	s.Say("A list of %d rows in pages of 10. A page may be shorter than asked for, even empty, so only the token says whether there is more.", all)
	seen, token := 0, ""
	for n := 1; ; n++ {
		page, next, err := rows.Page(ctx, tablestore.Query{PartitionKey: "channel-0", PageSize: 10}, token)
		if err != nil {
			return err
		}
		seen, token = seen+len(page), next
		if next == "" {
			s.Claim(seen == all, "%d pages brought %d rows", n, seen)
			return nil
		}
		if n > all {
			return fmt.Errorf("%d pages and no end", n)
		}
	}
}
