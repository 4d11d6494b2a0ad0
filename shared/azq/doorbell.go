package azq

import (
	"context"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// DoorbellTable is the base name of the table by which a sender wakes workers that sleep. A
// read of all its rows is one request at a tenth of the price of a look at one queue:
//
//	PartitionKey  "all": one small row for each queue (single, T4)
//	RowKey        "ring <queue>"     there was a send to that queue when the row has another version
//	              "watch <number>"   the worker that looks for all workers of the same queues: see watch
const DoorbellTable = "doorbells"

const (
	doorbellPartition = "all"
	ringKey           = "ring "
	watchKey          = "watch "
)

const (
	ringEvery  = time.Second // at most, for one queue from one process
	ringWithin = time.Second // no sender waits longer
	ringPause  = 10 * time.Second
)

// ring tells workers that sleep that the queue has a message, or will have one. It is tried
// once, because it only saves time: the worker on watch finds every message.
func (q *Queue) ring(ctx context.Context) {
	before, next := q.nextRing.Load(), time.Now().Add(ringEvery)
	if before != nil && time.Now().Before(*before) || !q.nextRing.CompareAndSwap(before, &next) {
		return
	}
	ctx, cancel := context.WithTimeout(azstore.WithoutRetry(ctx), ringWithin)
	defer cancel()
	err := q.creating(ctx, func() error {
		row := tablestore.Entity{PartitionKey: doorbellPartition, RowKey: ringKey + q.spec.Name}
		_, err := q.doorbells.Upsert(ctx, row)
		return err
	})
	if err != nil { // senders do not wait for tables that are away, time after time
		later := time.Now().Add(ringPause)
		q.nextRing.Store(&later)
	}
}

// doorbells is what the table held at one moment.
type doorbells struct {
	rings map[string]string // the version of each queue's row
	watch tablestore.Entity // the row of a watch; without keys when there is none
}

// readDoorbells reads all rings, and the row of a watch.
func readDoorbells(ctx context.Context, table *tablestore.Table, watch string) (doorbells, error) {
	found := doorbells{rings: map[string]string{}}
	query := tablestore.Query{PartitionKey: doorbellPartition, Class: tablestore.RowRange}
	query.Read = func(row tablestore.Entity) error {
		if queue, isRing := strings.CutPrefix(row.RowKey, ringKey); isRing {
			found.rings[queue] = row.ETag
		} else if row.RowKey == watch {
			found.watch = row
		}
		return nil
	}
	for _, err := range table.Query(azstore.WithoutRetry(ctx), query) {
		if err != nil {
			return doorbells{}, err
		}
	}
	return found, nil
}
