package azq

import (
	"context"
	"crypto/rand"
	"fmt"
	"hash/fnv"
	"slices"
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
		q.nextRing.Store(new(time.Now().Add(ringPause)))
	}
}

const (
	// attentive is the pause between two reads of the doorbells by the worker on watch, and by
	// one that had work a moment ago. The worker on watch asks for the length of one queue at
	// every second read.
	attentive = 450 * time.Millisecond
	// inattentive is that pause of any other worker.
	inattentive = 10 * time.Second

	watchBeat   = 4 * time.Second // how often the worker on watch says that it looks
	watchSilent = 8 * time.Second // after this long without a word another takes the watch
	watchWithin = 2 * time.Second // for one request
)

// watch finds what comes when nothing has come for long, at a cost that hardly grows with the
// number of workers. Workers of the same queues agree in a row of [DoorbellTable] on one that
// is on watch: it reads the doorbells twice a second, and asks for the length of one queue
// after the other, for messages that come without a ring: of other programs, of killed
// workers, delayed ones. The others read the doorbells seldom.
//
// Nothing depends on the row being right. A worker on watch that is dead, stands still or
// cannot look says nothing, and another takes its place; two at once look twice as often; one
// that cannot read or write the row looks all the same. No clock but the process's own
// counts.
type watch struct {
	c     *worker
	table *tablestore.Table
	row   string // its RowKey
	self  string // this process

	on      bool                         // this worker is on watch, as far as it knows
	version string                       // of the row, as read or written last …
	since   time.Time                    // … and when that was read first, or written
	heard   map[string]tablestore.Entity // all rows by RowKey, as read last; nil before the first read
	looked  bool                         // this worker has looked since it last wrote the row
	due     int                          // queues to ask for their length now, perhaps none
	next    int                          // of the pollers, the next to be asked
}

func newWatch(c *worker) *watch {
	var names []string
	for _, l := range c.pollers {
		names = append(names, l.queue.Name()+"\n")
	}
	slices.Sort(names)
	sum := fnv.New64a()
	sum.Write([]byte(strings.Join(names, "")))
	return &watch{
		c: c, table: c.pollers[0].queue.doorbells, row: fmt.Sprintf("%s%016x", watchKey, sum.Sum64()),
		self: c.options.Worker + " " + rand.Text(),
	}
}

// run keeps watch with the others until ctx ends.
func (w *watch) run(ctx context.Context) {
	for ctx.Err() == nil {
		found, err := w.read(ctx)
		if err == nil {
			w.stand(ctx, found[w.row])
			w.listen(ctx, found)
		} else if ctx.Err() == nil {
			w.c.log.Warn("cannot read the doorbells of queues: looking without them", "error", err)
			w.mount() // perhaps no other can read who is on watch
		}
		w.look(ctx)
		_ = azstore.Sleep(ctx, w.pause())
	}
	if w.on { // another worker is to take the watch at once
		w.write(context.WithoutCancel(ctx), "")
	}
}

// read reads all rows, by RowKey.
func (w *watch) read(ctx context.Context) (map[string]tablestore.Entity, error) {
	ctx, cancel := context.WithTimeout(azstore.WithoutRetry(ctx), watchWithin)
	defer cancel()
	found := map[string]tablestore.Entity{}
	query := tablestore.Query{PartitionKey: doorbellPartition, Class: tablestore.RowRange}
	query.Read = func(row tablestore.Entity) error { found[row.RowKey] = row; return nil }
	err := w.c.pollers[0].queue.creating(ctx, func() error {
		for _, err := range w.table.Query(ctx, query) {
			if err != nil {
				return err
			}
		}
		return nil
	})
	return found, err
}

// pause is short while a poller is awake: there was work a moment ago.
func (w *watch) pause() time.Duration {
	if w.on || slices.ContainsFunc(w.c.pollers, func(l *queuePoller) bool { return !l.asleep() }) {
		return attentive
	}
	return spread(inattentive)
}

// stand decides who is on watch, by the row.
func (w *watch) stand(ctx context.Context, row tablestore.Entity) {
	if row.ETag != w.version {
		w.version, w.since = row.ETag, time.Now()
	}
	switch keeper := row.String("Worker"); {
	case keeper == w.self:
		w.mount()
		if w.looked && time.Since(w.since) >= watchBeat {
			w.write(ctx, w.self)
		}
	case keeper == "", time.Since(w.since) > watchSilent:
		w.write(ctx, w.self)
	default:
		w.on = false
	}
}

// write puts a worker into the row, unless another was quicker.
func (w *watch) write(ctx context.Context, worker string) {
	ctx, cancel := context.WithTimeout(azstore.WithoutRetry(ctx), watchWithin)
	defer cancel()
	next := tablestore.Entity{PartitionKey: doorbellPartition, RowKey: w.row, Props: map[string]any{"Worker": worker}}
	etag, err := w.table.Put(ctx, next, w.version)
	if tablestore.Overtaken(err) {
		w.on = false // as far as is known; the next read tells
		return
	}
	if err == nil {
		w.version, w.since, w.looked = etag, time.Now(), false
	}
	w.mount() // also after an error: perhaps no other can write
}

// mount begins to look, with one look at every queue.
func (w *watch) mount() {
	if !w.on {
		w.on, w.due = true, len(w.c.pollers)
	}
}

// listen wakes the pollers of queues whose bell has rung since the last read.
func (w *watch) listen(ctx context.Context, found map[string]tablestore.Entity) {
	for _, l := range w.c.pollers {
		bell := ringKey + l.queue.Name()
		if w.heard == nil || found[bell].ETag == w.heard[bell].ETag {
			continue
		}
		later := l.awakeStill() < awakeFor/2 // the message may be a delayed one
		l.stay(ringAwake)
		l.queue.Wake()
		if w.on && later {
			w.ask(ctx, l)
		}
	}
	w.heard = found
}

// look asks for the length of the next queue, at every second call, while on watch.
func (w *watch) look(ctx context.Context) {
	if !w.on {
		return
	}
	for n := w.due; n > 0 && ctx.Err() == nil; n-- {
		l := w.c.pollers[w.next%len(w.c.pollers)]
		w.next++
		if w.ask(ctx, l) {
			l.queue.ring(ctx) // for the others: this worker may have no slot, or not know the kind
		}
	}
	w.due = 1 - min(w.due, 1)
}

// ask reads the length of a queue, and keeps its poller awake while there are messages, hidden
// ones too: they may be those of a crashed worker.
func (w *watch) ask(ctx context.Context, l *queuePoller) (messages bool) {
	length, err := w.c.refresh(ctx, l)
	if err != nil {
		w.c.log.Warn("cannot look at the queue", "queue", l.queue.Spec().Name, "error", err)
		return false
	}
	w.looked = true
	if length > 0 {
		l.stay(awakeFor)
		l.queue.Wake()
	}
	return length > 0
}
