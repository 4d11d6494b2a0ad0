package scenes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cutroom/cutroom/e2e/partitions"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

var (
	_ = register(programs, "partition-splits", partitionSplits)
	_ = register(programs, "hot-keys", hotKeys)
)

// behind leads an actor to the tables through a model of Azure's partition servers,
// which the emulator does not have.
func behind(model *partitions.Proxy) Option {
	return func(cfg *azstore.Config) { cfg.ConnectionString = model.ConnectionString() }
}

// patient rides out what the model does.
var patient = retrying(azstore.Retry{Strategy: azstore.Exponential, MaxRetries: 15, Delay: 20 * time.Millisecond, MinDelay: 20 * time.Millisecond, MaxDelay: 300 * time.Millisecond, TryTimeout: 5 * time.Second})

// partitionSplits reads and writes a table while its partitions split and move (T10):
// pages end where a range ends, requests are refused, and no update is lost.
func partitionSplits(s *Stage) {
	const channels, films, updates = 8, 5, 60
	s.Ensure(nil, "films")
	model := get(partitions.Start(s.cfg.ConnectionString, partitions.Config{Seed: 7, Churn: 200 * time.Millisecond, MoveTime: 250 * time.Millisecond}))
	defer model.Close()
	rows := s.Table("writer", "films", behind(model), patient)
	var ops []tablestore.Op
	for c := range channels {
		for f := range films {
			ops = append(ops, tablestore.Op{Kind: tablestore.OpUpsert, Entity: tablestore.Entity{
				PartitionKey: fmt.Sprint("channel-", c), RowKey: fmt.Sprint("film-", f), Props: map[string]any{"Views": 0},
			}})
		}
	}
	must(rows.SubmitAll(Quiet(s.ctx), ops))
	s.Next(updates)
	watched := func() string { return fmt.Sprint("channel-", rand.IntN(channels)) }
	for range updates - 1 {
		countView(OnlyTrouble(s.ctx), rows, watched())
	}
	countView(s.ctx, rows, watched()) // one of them is told, also if none met trouble
	s.until("a range splits", func() (bool, error) {
		_, err := rows.Get(OnlyTrouble(s.ctx), watched(), "film-0")
		return model.Stats().Splits >= 2, err
	})
	stats := model.Stats()
	s.Claim(stats.Moves > 0, stats.Splits, stats.Moves, stats.Unavailable+stats.LostReplies)

	seen, views, before, ordered := map[string]bool{}, 0, "", true
	for row, err := range s.Table("reader", "films", behind(model), patient).Query(s.ctx, tablestore.Query{}) {
		must(err)
		key := row.PartitionKey + " " + row.RowKey
		ordered = ordered && key > before
		before, seen[key] = key, true
		views += row.Int("Views")
	}
	tokens := s.Told(func(e Event) bool { return e.From == "reader" && strings.HasSuffix(e.Reply, "and a token") })
	s.Claim(len(seen) == channels*films && ordered && tokens > 0, len(seen), tokens+1)
	s.Claim(views == updates, views)
}

// countView adds one to a counter, again if another writer was faster.
func countView(ctx context.Context, rows *tablestore.Table, channel string) {
	for {
		row := get(rows.Get(ctx, channel, "film-0"))
		row.Props["Views"] = row.Int("Views") + 1
		_, err := rows.Update(ctx, row, row.ETag)
		if !errors.Is(err, tablestore.ErrChanged) {
			must(err)
			return
		}
	}
}

// suffixes is how many partitions the spread keys have.
const suffixes = 16

func suffixed(n int) string { return "views." + tablestore.Pad(int64(n), 2) }

// computed is the suffix of row n: a reader who knows n can compute it, too.
func computed(n int) int { return n * 7 % suffixes }

// hotKeys offers the same load to four PartitionKeys (T9, T3, S2, S3), and asks what a
// reader pays for each.
func hotKeys(s *Stage) {
	keys := []struct {
		table string
		of    func(n int) string
	}{
		{"one", func(int) string { return "views" }},
		{"growing", func(n int) string { return tablestore.Pad(int64(n), 12) }},
		{"random", func(int) string { return suffixed(rand.IntN(suffixes)) }},
		{"computed", func(n int) string { return suffixed(computed(n)) }},
	}
	written, stats, errs := make([]float64, len(keys)), make([]partitions.Stats, len(keys)), make([]error, len(keys))
	var all sync.WaitGroup
	for i, key := range keys {
		s.Ensure(nil, key.table)
		all.Go(func() { written[i], stats[i], errs[i] = pressed(s, key.table, key.of, write) })
	}
	all.Wait()
	must(errors.Join(errs...))
	for i := range keys {
		s.Next(100*written[i], stats[i].Refused(), stats[i].Splits)
	}
	s.Claim(written[0] < 0.5)
	s.Claim(written[1] < 0.8)
	s.Claim(written[2] > written[0]+0.2 && written[3] > written[0]+0.2)
	readHot(s, keys[0].of, keys[3].of)
	findOne(s, 1001)
}

// readHot offers as many reads: to a partition, a read of a row is what a write is.
func readHot(s *Stage, one, computed func(n int) string) {
	var shares [2]float64
	var errs [2]error
	var all sync.WaitGroup
	all.Go(func() { shares[0], _, errs[0] = pressed(s, "one", one, read) })
	all.Go(func() { shares[1], _, errs[1] = pressed(s, "computed", computed, read) })
	all.Wait()
	must(errors.Join(errs[:]...))
	s.Claim(shares[0] < 0.5 && shares[1] > shares[0]+0.2, 100*shares[0], 100*shares[1])
}

// request is what a client does with the row of some keys.
type request func(ctx context.Context, rows *tablestore.Table, partition, row string) error

func write(ctx context.Context, rows *tablestore.Table, partition, row string) error {
	_, err := rows.Upsert(ctx, tablestore.Entity{PartitionKey: partition, RowKey: row})
	return err
}

// read takes an answer that the row was never written for an answer.
func read(ctx context.Context, rows *tablestore.Table, partition, row string) error {
	_, err := rows.Get(ctx, partition, row)
	return tablestore.IgnoreNotFound(err)
}

// pressed makes 60 requests a second for four seconds, without retries, and returns the
// share that succeeded in the last one.
func pressed(s *Stage, table string, key func(int) string, ask request) (share float64, stats partitions.Stats, err error) {
	const seconds, perSecond = 4, 60
	model, err := partitions.Start(s.cfg.ConnectionString, partitions.Config{Seed: 1, Scale: 300, AccountBudget: -1, SplitAfter: 600 * time.Millisecond, MoveTime: 100 * time.Millisecond})
	if err != nil {
		return 0, stats, err
	}
	defer model.Close()
	rows := s.Table("viewers", table, behind(model), retrying(azstore.Retry{Strategy: azstore.NoRetry}))
	var done atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for n := range seconds * perSecond {
		if err := sleep(s.ctx, time.Until(begin.Add(time.Duration(n)*time.Second/perSecond))); err != nil {
			return 0, stats, err
		}
		told := Quiet(s.ctx)
		if n == seconds*perSecond-1 {
			told = s.ctx // one of them is enough to see
		}
		all.Go(func() {
			if ask(told, rows, key(n), tablestore.Pad(int64(n), 4)) == nil && n >= (seconds-1)*perSecond {
				done.Add(1)
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / perSecond, model.Stats(), nil
}

// findOne reads row n where its suffix was drawn, and where it can be computed.
func findOne(s *Stage, n int) {
	name := tablestore.Pad(int64(n), 4)
	get(s.Table("writer", "random").Upsert(Quiet(s.ctx), tablestore.Entity{PartitionKey: suffixed(rand.IntN(suffixes)), RowKey: name}))
	get(s.Table("writer", "computed").Upsert(Quiet(s.ctx), tablestore.Entity{PartitionKey: suffixed(computed(n)), RowKey: name}))
	reader := s.Table("reader S2", "random")
	found := 0
	for i := range suffixes {
		switch _, err := reader.Get(s.ctx, suffixed(i), name); {
		case err == nil:
			found++
		case !errors.Is(err, tablestore.ErrNotFound):
			must(err)
		}
	}
	get(s.Table("reader S3", "computed").Get(s.ctx, suffixed(computed(n)), name))
	s.Claim(found == 1 && s.ToldOf("reader S2") == suffixes && s.ToldOf("reader S3") == 1, s.ToldOf("reader S2"))
}
