// Package views counts how often videos are watched. A view goes to one of [Shards] partitions
// of its day, at random (S2): the date alone would take every view of the site (T3). So it is
// unknown where a view was counted, and a reader asks all of them. Therefore a day that has
// ended is summed once ([Counter.RollUp]), into the partition of each video, where the row of
// the day proves that it was added. Keys: docs/data-model.md.
//
// Next: workerrole/main.go, where the roll-up is a duty of the elected worker.
package views

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/rowstream"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
)

// Table is the table's base name.
const Table = "views"

// Shards is over how many partitions a day is spread: it takes Shards × 2,000
// requests a second, two for each view. Reading an open day costs as many.
const Shards = 8

const (
	daysKey   = "DAYS"
	allRow    = "ALL"
	dayPrefix = "DAY:"
	dayFormat = "2006-01-02"

	// daysShown is how many days Views returns at most.
	daysShown = 30
	// maxSwaps is how many suffixes a view tries before it is given up.
	maxSwaps = 20
	// parallel bounds the requests of one call at a time.
	parallel = 8
	// pageAhead is how many rows of a suffix a roll-up asks for at first.
	pageAhead = 128

	// A row keeps the ids of its latest views, more than others can add while a
	// lost reply is waited for.
	viewIDsKept, viewIDLength = 64, 10
)

// ErrContended says that a view could not be counted, because others counted
// views of the same video at every suffix that was tried.
var ErrContended = errors.New("too many views of this video at once")

// Counter counts and sums. It is safe for concurrent use.
type Counter struct {
	table *tablestore.Table

	days sync.Map // string to struct{}: days that have their row already
}

// New returns the counter of an account, whose table exists.
func New(a *azstore.Account) *Counter { return &Counter{table: tablestore.New(a, Table)} }

// Day is the number of views on one day.
type Day struct {
	Date  string `json:"date"` // of UTC, such as 2026-01-02
	Views int64  `json:"views"`
}

// Views is what is known about one video.
type Views struct {
	Total int64 `json:"total"`
	Days  []Day `json:"days"` // up to 30 with views, newest first
}

// Count counts one view, now. Not safe to repeat: each call is a view. If no try gets
// a reply, the view may be counted or not, but never twice. Error: ErrContended.
//
// After one lost reply the row's OpId says whether the view was counted. At a busy
// row another writer may have replaced the OpId before the second try, so the row
// also keeps the ids of its latest views (Q13).
func (c *Counter) Count(ctx context.Context, id engine.ID, now time.Time) error {
	date := now.UTC().Format(dayFormat)
	if err := c.openDay(ctx, date); err != nil {
		return fmt.Errorf("counting a view of %s: %w", id, err)
	}
	viewID := cryptorand.Text()[:viewIDLength]
	for range maxSwaps {
		// A suffix whose row another process is swapping is left to it.
		pk := shardKey(date, 1+rand.IntN(Shards))
		err := c.add(ctx, pk, id, viewID)
		if errors.Is(err, tablestore.ErrUnclear) {
			row, lookErr := c.table.Get(ctx, pk, string(id))
			if lookErr != nil {
				return fmt.Errorf("counting a view of %s: %w", id, lookErr)
			}
			if slices.Contains(strings.Fields(row.String("Latest")), viewID) {
				return nil
			}
		}
		if !tablestore.Overtaken(err) {
			return err
		}
	}
	return fmt.Errorf("counting a view of %s: %w", id, ErrContended)
}

// add swaps the row of one suffix for one that is greater by one.
func (c *Counter) add(ctx context.Context, pk string, id engine.ID, viewID string) error {
	row, err := c.table.Get(ctx, pk, string(id))
	if err = tablestore.IgnoreNotFound(err); err != nil {
		return err
	}
	views, _ := tablestore.Decode(ctx, c.table, row, countOf) // one that cannot be read is reported, and begins anew
	latest := strings.Fields(row.String("Latest"))
	_, err = c.table.Put(ctx, tablestore.Entity{PartitionKey: pk, RowKey: string(id), Props: map[string]any{
		"Views": views + 1, "Latest": strings.Join(append(latest[max(0, len(latest)-viewIDsKept+1):], viewID), " "),
	}}, row.ETag)
	return err
}

// openDay writes the day's row, once per process, before its first view.
func (c *Counter) openDay(ctx context.Context, date string) error {
	if _, known := c.days.Load(date); known {
		return nil
	}
	_, err := c.table.Insert(ctx, tablestore.Entity{PartitionKey: daysKey, RowKey: date})
	if err != nil && !errors.Is(err, tablestore.ErrExists) {
		return fmt.Errorf("opening day %s: %w", date, err)
	}
	c.days.Store(date, struct{}{})
	return nil
}

// openDays lists the days that are not closed, oldest first: one row range.
func (c *Counter) openDays(ctx context.Context) ([]time.Time, error) {
	var days []time.Time
	read := func(row tablestore.Entity) (time.Time, error) { return time.Parse(dayFormat, row.RowKey) }
	query := tablestore.Query{PartitionKey: daysKey, Select: []string{"RowKey"}, Class: tablestore.RowRange, Read: tablestore.Into(&days, read)}
	for _, err := range c.table.Query(ctx, query) {
		if err != nil {
			return nil, fmt.Errorf("listing open days: %w", err)
		}
	}
	return days, nil
}

func countOf(row tablestore.Entity) (int64, error) { return row.Int64("Views"), nil }

// Views returns the views of a video: one row range for the closed days, one for
// the list of open days, and Shards point queries for each of these, of which
// there are one or two.
func (c *Counter) Views(ctx context.Context, id engine.ID) (Views, error) {
	// The open days are listed first: one that is closed in between is found
	// among the closed ones, and skipped below.
	open, err := c.openDays(ctx)
	if err != nil {
		return Views{}, fmt.Errorf("views of %s: %w", id, err)
	}
	all, days, err := c.closed(ctx, id)
	if err != nil {
		return Views{}, fmt.Errorf("views of %s: %w", id, err)
	}
	v := Views{Total: all, Days: []Day{}}
	closed := map[string]bool{}
	for _, d := range days {
		closed[d.Date] = true
	}
	for _, day := range open {
		date := day.Format(dayFormat)
		if closed[date] {
			continue
		}
		n, err := c.fanOut(ctx, date, id)
		if err != nil {
			return Views{}, fmt.Errorf("views of %s: %w", id, err)
		}
		v.Total += n
		if n > 0 {
			v.Days = append([]Day{{date, n}}, v.Days...)
		}
	}
	v.Days = append(v.Days, days...)
	v.Days = v.Days[:min(len(v.Days), daysShown)]
	return v, nil
}

// closed reads row ALL and the newest days: the first rows of the partition.
func (c *Counter) closed(ctx context.Context, id engine.ID) (all int64, days []Day, err error) {
	query := tablestore.Query{PartitionKey: videoKey(id), Class: tablestore.RowRange, Read: tablestore.Into(&days, readClosed)}
	_, err = c.table.First(ctx, query, 1+daysShown)
	if len(days) > 0 && days[0].Date == "" {
		all, days = days[0].Views, days[1:]
	}
	return all, days, err
}

// readClosed reads a row of a video's sums. Row ALL has no date.
func readClosed(row tablestore.Entity) (Day, error) {
	day := Day{Views: row.Int64("Views")}
	if row.RowKey == allRow {
		return day, nil
	}
	inverted, isDay := strings.CutPrefix(row.RowKey, dayPrefix)
	date, err := tablestore.ParseInvertedTime(inverted)
	if !isDay || err != nil {
		return day, errors.New("its key is no day")
	}
	day.Date = date.Format(dayFormat)
	return day, nil
}

func (c *Counter) fanOut(ctx context.Context, date string, id engine.ID) (sum int64, err error) {
	var counts [Shards]int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	// snippet: fan-out
	for i := range counts {
		group.Go(func() error {
			row, err := c.table.Get(ctx, shardKey(date, i+1), string(id))
			if err == nil {
				counts[i], err = tablestore.Decode(ctx, c.table, row, countOf)
			}
			if errors.Is(err, tablestore.ErrNotFound) || errors.Is(err, tablestore.ErrUnreadable) {
				return nil
			}
			return err
		})
	}
	// end snippet
	if err := group.Wait(); err != nil {
		return 0, err
	}
	for _, n := range counts {
		sum += n
	}
	return sum, nil
}

// Remove forgets the views of a video that is gone. Safe to repeat.
func (c *Counter) Remove(ctx context.Context, id engine.ID) error {
	days, err := c.openDays(ctx)
	if err != nil {
		return fmt.Errorf("forgetting views of %s: %w", id, err)
	}
	var ops []tablestore.Op
	remove := func(pk, rk string) {
		ops = append(ops, tablestore.Op{Kind: tablestore.OpDelete, Entity: tablestore.Entity{PartitionKey: pk, RowKey: rk}})
	}
	for _, day := range days {
		for n := range Shards {
			remove(shardKey(day.Format(dayFormat), n+1), string(id))
		}
	}
	for row, err := range c.table.Query(ctx, tablestore.Query{PartitionKey: videoKey(id), Select: []string{"RowKey"}, Class: tablestore.RowRange}) {
		if err != nil {
			return fmt.Errorf("forgetting views of %s: %w", id, err)
		}
		remove(row.PartitionKey, row.RowKey)
	}
	return c.table.SubmitAll(ctx, ops)
}

func shardKey(date string, n int) string { return date + "." + strconv.Itoa(n) }

func videoKey(id engine.ID) string { return "~" + string(id) }

// dayKey is the RowKey of a closed day: later days sort first.
func dayKey(date time.Time) string { return dayPrefix + tablestore.InvertedTime(date) }

// closeAfter is how long after its end (UTC) a day is closed: by then no web
// role's clock is still in it.
const closeAfter = time.Hour

// RollUp sums every day that has ended and removes its rows. exists reports whether a video is
// there, so that nothing is written about one that is purged. RollUp reads the
// suffixes of a day side by side, in the order of the ids, so it holds Shards
// pages at a time however many videos were watched, and then asks for each of these as
// a reader does. Safe to repeat, to be killed anywhere, and to run twice at once.
func (c *Counter) RollUp(ctx context.Context, now time.Time, exists func(context.Context, engine.ID) (bool, error)) error {
	days, err := c.openDays(ctx)
	if err != nil {
		return fmt.Errorf("rolling up views: %w", err)
	}
	var errs []error // a day that cannot be closed keeps no other one open
	for _, day := range days {
		if now.Before(day.AddDate(0, 0, 1).Add(closeAfter)) {
			continue
		}
		if err := c.closeDay(ctx, day, exists); err != nil {
			errs = append(errs, fmt.Errorf("rolling up views of %s: %w", day.Format(dayFormat), err))
		}
	}
	return errors.Join(errs...)
}

// closeDay writes the sums, then removes what they were made of, then the day's
// row. A worker that is killed in between leaves a day that is closed again: the videos
// that have their sum are recognised by it.
func (c *Counter) closeDay(ctx context.Context, day time.Time, exists func(context.Context, engine.ID) (bool, error)) error {
	date := day.Format(dayFormat)
	var watched rowstream.Union[int64]
	for n := range Shards {
		shard := &rowstream.Partition[int64]{Table: c.table, PartitionKey: shardKey(date, n+1), Ahead: pageAhead, Read: countOf}
		watched.Lists = append(watched.Lists, shard)
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for row, err := range rowstream.All(groupCtx, &watched, "") {
		group.Go(func() error {
			if err != nil {
				return err
			}
			id := engine.ID(row.Key)
			views, err := c.fanOut(groupCtx, date, id)
			if err != nil {
				return err
			}
			return c.closeVideo(groupCtx, id, day, views, exists)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for n := range Shards {
		if _, err := c.table.Clear(ctx, tablestore.Query{PartitionKey: shardKey(date, n+1), Class: tablestore.RowRange}); err != nil {
			return err
		}
	}
	return c.table.Delete(ctx, daysKey, date, tablestore.AnyETag)
}

// closeVideo adds a day to a video's sums, unless it is there already.
func (c *Counter) closeVideo(ctx context.Context, id engine.ID, day time.Time, views int64, exists func(context.Context, engine.ID) (bool, error)) error {
	for {
		if there, err := exists(ctx, id); err != nil || !there {
			return err
		}
		ops := []tablestore.Op{{Kind: tablestore.OpInsert, Entity: tablestore.Entity{
			PartitionKey: videoKey(id), RowKey: dayKey(day), Props: map[string]any{"Views": views},
		}}}
		all, err := c.table.Get(ctx, videoKey(id), allRow)
		if err = tablestore.IgnoreNotFound(err); err != nil {
			return err
		}
		before, _ := tablestore.Decode(ctx, c.table, all, countOf) // one that cannot be read is reported, and begins anew
		ops = append(ops, tablestore.Over(tablestore.Entity{
			PartitionKey: videoKey(id), RowKey: allRow, Props: map[string]any{"Views": before + views},
		}, all.ETag))
		switch _, err := c.table.Submit(ctx, ops); {
		case err == nil:
			// The purge looks for these rows after the video is marked as deleted, and we look
			// for the mark after we have written them: one of the two removes them.
			if there, err := exists(ctx, id); err != nil || there {
				return err
			}
			return c.Remove(ctx, id)
		case tablestore.Overtaken(err):
			_, err := c.table.Get(ctx, videoKey(id), dayKey(day))
			if !errors.Is(err, tablestore.ErrNotFound) {
				return err // the day is there: nothing to do
			}
			// Another day was added meanwhile, or the video is on its way out.
		default:
			return err
		}
	}
}
