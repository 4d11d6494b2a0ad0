package views

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/azstore/rowstream"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/video"
)

// closeAfter is how long after its end (UTC) a day is closed: by then no web
// role's clock is still in it.
const closeAfter = time.Hour

// Exists reports whether a video is there, so that nothing is written about one
// that is purged.
type Exists func(ctx context.Context, id video.ID) (bool, error)

// RollUp sums every day that has ended and removes its rows. It reads the
// suffixes of a day side by side, in the order of the ids, so it holds Shards
// pages at a time however many videos were watched, and then asks for each of these as
// a reader does. Safe to repeat, to be killed anywhere, and to run twice at once.
func (c *Counter) RollUp(ctx context.Context, now time.Time, exists Exists) error {
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
func (c *Counter) closeDay(ctx context.Context, day time.Time, exists Exists) error {
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
			id := video.ID(row.Key)
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
	err := c.table.Delete(ctx, daysKey, date, tablestore.AnyETag)
	if err != nil && !errors.Is(err, tablestore.ErrNotFound) {
		return err
	}
	return nil
}

// closeVideo adds a day to a video's sums, unless it is there already.
func (c *Counter) closeVideo(ctx context.Context, id video.ID, day time.Time, views int64, exists Exists) error {
	for {
		if there, err := exists(ctx, id); err != nil || !there {
			return err
		}
		ops := []tablestore.Op{{Kind: tablestore.OpInsert, Entity: tablestore.Entity{
			PartitionKey: videoKey(id), RowKey: dayKey(day), Props: map[string]any{"Views": views},
		}}}
		all, err := c.table.Get(ctx, videoKey(id), allRow)
		kind := tablestore.OpReplace
		if errors.Is(err, tablestore.ErrNotFound) {
			kind, err = tablestore.OpInsert, nil
		}
		if err != nil {
			return err
		}
		before, _ := tablestore.Decode(ctx, c.table, all, countOf) // one that cannot be read is reported, and begins anew
		ops = append(ops, tablestore.Op{Kind: kind, IfMatch: all.ETag, Entity: tablestore.Entity{
			PartitionKey: videoKey(id), RowKey: allRow, Props: map[string]any{"Views": before + views},
		}})
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
