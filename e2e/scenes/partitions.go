package scenes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cutroom/cutroom/e2e/partitions"
	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/tablestore"
)

// behind leads an actor to the tables through a model of Azure's partition servers,
// which the emulator does not have.
func behind(model *partitions.Proxy) Option {
	return func(cfg *azstorage.Config) { cfg.ConnectionString = model.ConnectionString() }
}

// patient rides out what the model does.
var patient = azstorage.Retry{Strategy: azstorage.Exponential, MaxRetries: 15, Delay: 20 * time.Millisecond, MinDelay: 20 * time.Millisecond, MaxDelay: 300 * time.Millisecond, TryTimeout: 5 * time.Second}

// partitionSplits reads and writes a table while its partitions split and move (T10):
// pages end where a range ends, requests are refused, and no update is lost.
func partitionSplits(ctx context.Context, s *Stage) (err error) {
	const channels, films, updates = 8, 5, 60
	if err := s.Account("stage").Ensure(Quiet(ctx), nil, nil, []string{"films"}); err != nil {
		return err
	}
	model, err := partitions.Start(s.cfg.ConnectionString, partitions.Config{Seed: 7, Churn: 200 * time.Millisecond, MoveTime: 250 * time.Millisecond})
	if err != nil {
		return err
	}
	defer model.Close()
	s.Say("A table of %d channels with %d films. The emulator has one server; a model of Azure's stands before it: a range of PartitionKeys splits whenever it likes, and one half moves to another server, which takes a quarter of a second.", channels, films)
	rows := tablestore.New(s.Account("writer", behind(model), retrying(patient)).Table("films"))
	var ops []tablestore.Op
	for c := range channels {
		for f := range films {
			ops = append(ops, tablestore.Op{Kind: tablestore.OpUpsert, Entity: tablestore.Entity{
				PartitionKey: fmt.Sprint("channel-", c), RowKey: fmt.Sprint("film-", f), Props: map[string]any{"Views": 0},
			}})
		}
	}
	if err := rows.SubmitAll(Quiet(ctx), ops); err != nil {
		return err
	}
	s.Say("A writer counts views: %d updates, each in the version that it has read. Only what is refused is told.", updates)
	for range updates {
		if err := countView(OnlyTrouble(ctx), rows, fmt.Sprint("channel-", rand.IntN(channels))); err != nil {
			return err
		}
	}
	if err := until(ctx, "a range splits", func() (bool, error) {
		if model.Stats().Splits >= 2 {
			return true, nil
		}
		_, err := rows.Get(OnlyTrouble(ctx), fmt.Sprint("channel-", rand.IntN(channels)), "film-0")
		return false, err
	}); err != nil {
		return err
	}
	stats := model.Stats()
	s.Claim(stats.Moves > 0, "meanwhile %d ranges split and %d moved; %d requests met that, and were repeated", stats.Splits, stats.Moves, stats.Unavailable+stats.LostReplies)
	return readWhole(ctx, s, model, channels*films, updates)
}

// countView adds one to a counter, again if somebody was faster.
func countView(ctx context.Context, rows *tablestore.Table, channel string) error {
	for {
		row, err := rows.Get(ctx, channel, "film-0")
		if err != nil {
			return err
		}
		row.Props["Views"] = row.Int("Views") + 1
		if _, err = rows.Update(ctx, row, row.ETag); !errors.Is(err, tablestore.ErrChanged) {
			return err
		}
	}
}

// readWhole reads the table to its end, and adds up the counters.
func readWhole(ctx context.Context, s *Stage, model *partitions.Proxy, all, updates int) error {
	s.Say("A reader asks for the whole table in one query. A page ends where a range ends, however few rows it has, and its token names the next range.")
	reader := tablestore.New(s.Account("reader", behind(model), retrying(patient)).Table("films"))
	seen, views, before := map[string]bool{}, 0, ""
	ordered := true
	for row, err := range reader.Query(ctx, tablestore.Query{}) {
		if err != nil {
			return err
		}
		key := row.PartitionKey + " " + row.RowKey
		ordered = ordered && key > before
		before, seen[key] = key, true
		views += row.Int("Views")
	}
	tokens := s.Told(func(e Event) bool {
		return e.From == "reader" && len(e.Reply) > 11 && e.Reply[len(e.Reply)-11:] == "and a token"
	})
	s.Claim(len(seen) == all && ordered && tokens > 0, "all %d rows came, each once and in order, in %d pages", all, tokens+1)
	s.Claim(views == updates, "the counters add up to %d: no update was lost, and none was counted twice", views)
	s.Means("A program that takes a short page for the end loses rows on Azure, and never on the emulator. One that repeats an update without looking whether its first try was done counts it twice.")
	return nil
}

// suffixes is how many partitions the spread keys have.
const suffixes = 16

// hotKeys offers the same load to four PartitionKeys (T9, T3, S2, S3), and asks what a
// reader pays for each.
func hotKeys(ctx context.Context, s *Stage) error {
	keys := []struct {
		name, table, sample string
		of                  func(n int) string
	}{
		{"one partition", "one", "views", func(int) string { return "views" }},
		{"sequential (T3)", "growing", "000000001234", func(n int) string { return tablestore.Pad(int64(n), 12) }},
		{"random suffix (S2)", "random", "views.07", func(int) string { return suffixed(rand.IntN(suffixes)) }},
		{"computed suffix (S3)", "computed", "views.07", func(n int) string { return suffixed(computed(n)) }},
	}
	s.Say("Views of a film are written, 60 in a second. Which PartitionKey carries that? A model of Azure's partition servers stands before the emulator, at a scale of 1:300: one PartitionKey takes 7 rows in a second here, and 2,000 there; a server takes twice that.")
	written, model := map[string]float64{}, map[string]partitions.Stats{}
	var mu sync.Mutex
	var all sync.WaitGroup
	errs := make([]error, len(keys))
	for i, key := range keys {
		all.Go(func() {
			share, stats, err := pressed(ctx, s, key.table, key.of)
			mu.Lock()
			defer mu.Unlock()
			written[key.table], model[key.table], errs[i] = share, stats, err
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, key := range keys {
		s.Say("%s, such as %q: %.0f %% of the last second's rows were written. %d requests were refused; %d splits.", key.name, key.sample, 100*written[key.table], model[key.table].Refused(), model[key.table].Splits)
	}
	s.Claim(written["one"] < 0.5, "one partition is too coarse: it is a hot key, and no split can help it")
	s.Claim(written["growing"] < 0.8, "keys that only grow are no better: every new row is at the end of the last range, so one server has all of the load, however often it splits")
	s.Claim(written["random"] > written["one"]+0.2 && written["computed"] > written["one"]+0.2, "with %d suffixes the load spreads over servers, and more is written", suffixes)
	return whereIsIt(ctx, s)
}

func suffixed(n int) string { return "views." + tablestore.Pad(int64(n), 2) }

// computed is the suffix of row n: a reader who knows n can compute it, too.
func computed(n int) int { return n * 7 % suffixes }

// pressed writes 60 rows a second for four seconds, without retries, and returns the
// share that was written in the last one.
func pressed(ctx context.Context, s *Stage, table string, key func(int) string) (share float64, stats partitions.Stats, err error) {
	const seconds, perSecond = 4, 60
	if err := s.Account("stage").Ensure(Quiet(ctx), nil, nil, []string{table}); err != nil {
		return 0, stats, err
	}
	model, err := partitions.Start(s.cfg.ConnectionString, partitions.Config{Seed: 1, Scale: 300, AccountBudget: -1, SplitAfter: 600 * time.Millisecond, MoveTime: 100 * time.Millisecond})
	if err != nil {
		return 0, stats, err
	}
	defer model.Close()
	rows := tablestore.New(s.Account("viewers", behind(model), retrying(azstorage.Retry{Strategy: azstorage.NoRetry})).Table(table))
	var mu sync.Mutex
	tried, done := 0, 0
	var all sync.WaitGroup
	begin := time.Now()
	for n := range seconds * perSecond {
		due := begin.Add(time.Duration(n) * time.Second / perSecond)
		if err := sleep(ctx, time.Until(due)); err != nil {
			return 0, stats, err
		}
		told := Quiet(ctx)
		if n == seconds*perSecond-1 {
			told = ctx // one of them is enough to see
		}
		all.Go(func() {
			_, err := rows.Upsert(told, tablestore.Entity{PartitionKey: key(n), RowKey: tablestore.Pad(int64(n), 4)})
			mu.Lock()
			defer mu.Unlock()
			if n >= (seconds-1)*perSecond {
				tried++
				if err == nil {
					done++
				}
			}
		})
	}
	all.Wait()
	return float64(done) / float64(tried), model.Stats(), nil
}

// whereIsIt reads one row whose suffix was drawn, and one whose suffix can be computed.
func whereIsIt(ctx context.Context, s *Stage) error {
	const n = 1001
	rows := tablestore.New(s.Account("writer").Table("random"))
	spread := tablestore.New(s.Account("writer").Table("computed"))
	name := tablestore.Pad(n, 4)
	if _, err := rows.Upsert(Quiet(ctx), tablestore.Entity{PartitionKey: suffixed(rand.IntN(suffixes)), RowKey: name}); err != nil {
		return err
	}
	if _, err := spread.Upsert(Quiet(ctx), tablestore.Entity{PartitionKey: suffixed(computed(n)), RowKey: name}); err != nil {
		return err
	}
	s.Say("And reading one row? With a random suffix nobody knows where it is: ask all %d. With a computed one the reader computes it, too.", suffixes)
	reader := tablestore.New(s.Account("reader S2").Table("random"))
	found := 0
	for i := range suffixes {
		_, err := reader.Get(ctx, suffixed(i), name)
		if err == nil {
			found++
		} else if !errors.Is(err, tablestore.ErrNotFound) {
			return err
		}
	}
	if _, err := tablestore.New(s.Account("reader S3").Table("computed")).Get(ctx, suffixed(computed(n)), name); err != nil {
		return err
	}
	by := func(actor string) int { return s.Told(func(e Event) bool { return e.From == actor }) }
	s.Claim(found == 1 && by("reader S2") == suffixes && by("reader S3") == 1, "%d requests against one", by("reader S2"))
	s.Means("The model is not Azure: its budgets are Microsoft's targets, its splits are assumptions. It shows which key cannot work, not how fast yours will be.")
	return nil
}
