// Package board shows people what queues and workers do, while it happens. However
// many look, one reader asks storage, at most [Budget] times per second, and not at
// all when nobody looks. What it costs is in docs/board.md.
//
// Nothing depends on what is shown: it is read without taking anything, and may be
// a second or two old.
//
// Next: webrole/internal/httpapi, which sends it as server-sent events.
package board

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workers"
	"github.com/cutroom/cutroom/shared/workqueue"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/scaling"
)

// MaxLookers is how many may look at once through one web role.
const MaxLookers = 256

// maxPending is how many events wait for a looker that reads slowly. One that is
// further behind gets a snapshot instead.
const maxPending = 16

var (
	// ErrCrowded says that [MaxLookers] look already.
	ErrCrowded = errors.New("too many look at the board")
	// ErrClosed says that the role stops.
	ErrClosed = errors.New("the board is closed")
)

// Parts is what a board is read from.
type Parts struct {
	Queues  *workqueue.Queues
	Workers *workers.Register
	// Scale says how many workers the queues want, by what the board has read.
	Scale *scaling.Source
	// Title reads what a video is called: one storage request. A video that is gone
	// has an empty title.
	Title func(ctx context.Context, id video.ID) (string, error)
}

// Board is safe for concurrent use.
type Board struct {
	parts  Parts
	meter  meter
	titles *lru.Cache[string, title]

	mu      sync.Mutex
	closed  bool
	lookers map[*Looker]bool
	reader  *reader // nil while nobody looks
	opened  int     // readers since the start, for the ids of events
}

// New returns a board that nobody looks at.
func New(parts Parts) *Board {
	titles, err := lru.New[string, title](maxTitles)
	if err != nil {
		panic(err) // for a size below 1 only
	}
	b := &Board{parts: parts, titles: titles, lookers: map[*Looker]bool{}}
	b.meter.refill(time.Now())
	parts.Queues.OnSend(func(queue string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.reader != nil {
			b.reader.sent(queue)
		}
	})
	return b
}

// Event is one server-sent event. Data is JSON without line breaks, shared by all
// lookers: read-only.
type Event struct {
	Kind string // "snapshot" or "change"
	ID   string
	Data []byte
}

// The kinds of events.
const (
	Snapshot = "snapshot"
	Change   = "change"
)

// Looker is one who looks. Its methods are for one goroutine.
type Looker struct {
	board  *Board
	reader *reader
	wake   chan struct{} // holds one when there is something new

	// Guarded by board.mu.
	pending []Event
	behind  bool // the next event is a snapshot
}

// Look adds a looker. The first one starts the reader. Each must leave.
func (b *Board) Look() (*Looker, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return nil, ErrClosed
	case len(b.lookers) >= MaxLookers:
		return nil, ErrCrowded
	}
	if b.reader == nil {
		b.opened++
		b.reader = newReader(b, b.opened)
		go b.reader.run()
	}
	l := &Looker{board: b, reader: b.reader, wake: make(chan struct{}, 1), behind: true}
	b.lookers[l] = true
	return l, nil
}

// Leave ends the looking. With the last looker the reader stops.
func (l *Looker) Leave() {
	l.board.mu.Lock()
	defer l.board.mu.Unlock()
	delete(l.board.lookers, l)
	if len(l.board.lookers) == 0 {
		l.board.stop()
	}
}

// Close ends all looking: Next returns [ErrClosed] from now on.
func (b *Board) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.stop()
}

// stop ends the reader. The caller holds mu.
func (b *Board) stop() {
	if b.reader != nil {
		b.reader.cancel()
		b.reader = nil
	}
}

// Next waits for the next event. The first is a snapshot. An error before that says
// why nothing could be read.
func (l *Looker) Next(ctx context.Context) (Event, error) {
	if err := l.reader.wait(ctx); err != nil {
		return Event{}, err
	}
	for {
		event, found, err := l.take()
		if found || err != nil {
			return event, err
		}
		select {
		case <-l.wake:
		case <-l.reader.ctx.Done():
			return Event{}, ErrClosed
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}

func (l *Looker) take() (event Event, found bool, err error) {
	l.board.mu.Lock()
	defer l.board.mu.Unlock()
	switch {
	case l.reader.ctx.Err() != nil:
		return event, false, ErrClosed
	case l.behind:
		if event, err = l.reader.snapshot(); err != nil {
			return event, false, err
		}
		l.behind, l.pending = false, nil
		return event, true, nil
	case len(l.pending) == 0:
		return event, false, nil
	}
	event, l.pending = l.pending[0], l.pending[1:]
	return event, true, nil
}

// tell gives every looker an event. The caller holds mu.
func (b *Board) tell(event Event) {
	for l := range b.lookers {
		switch {
		case l.behind:
		case len(l.pending) >= maxPending:
			l.pending, l.behind = nil, true
		default:
			l.pending = append(l.pending, event)
		}
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// Glance returns what a looker would see first. While others look it costs nothing.
func (b *Board) Glance(ctx context.Context) (api.BoardEvent, error) {
	l, err := b.Look()
	if err != nil {
		return api.BoardEvent{}, err
	}
	defer l.Leave()
	if err := l.reader.wait(ctx); err != nil {
		return api.BoardEvent{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return l.reader.shown.everything(), nil
}

// Lookers is how many look now.
func (b *Board) Lookers() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.lookers)
}

// Requests is how often storage was asked for all lookers, since the start.
func (b *Board) Requests() int64 { return b.meter.total() }

// snapshot is made once for all who need it. The caller holds board.mu.
func (r *reader) snapshot() (Event, error) {
	if r.whole.Data == nil {
		data, err := json.Marshal(r.shown.everything())
		if err != nil {
			return Event{}, fmt.Errorf("encode a snapshot of the board: %w", err)
		}
		r.whole = Event{Kind: Snapshot, ID: r.eventID(), Data: data}
	}
	return r.whole, nil
}

func (r *reader) eventID() string {
	return strconv.Itoa(r.number) + "-" + strconv.FormatInt(r.version, 10)
}
