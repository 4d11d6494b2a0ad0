// Package board shows people what queues and workers do, while it happens. However
// many watch, one reader asks storage, at most [Budget] times per second, and not at
// all when no board is open. What it costs is in docs/board.md.
//
// Nothing depends on what is shown: it is read without taking anything, and may be
// a second or two old.
//
// Next: webrole/internal/httpapi, which sends it as server-sent events.
package board

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workers"
	"github.com/cutroom/cutroom/shared/workqueue"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/recent"
	"github.com/cutroom/cutroom/webrole/internal/scaling"
)

// MaxWatchers is how many may watch at once through one web role.
const MaxWatchers = 256

// Budget is how many storage requests per second a board may make, for any number of
// watchers. A board that was closed may make burst at once when it is opened, which
// is what reading everything takes.
const (
	Budget = 20
	burst  = 60
)

// linger is how long the reader goes on without a watcher, so that a program that asks for
// the scaling signal again and again does not make it begin anew each time.
const linger = 2 * time.Second

var (
	// ErrCrowded says that [MaxWatchers] watch already.
	ErrCrowded = errors.New("too many watch the board")
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
	parts    Parts
	titles   *recent.Memory[video.ID, string]
	budget   *rate.Limiter // outlives readers: opening the board again and again gets no more
	requests atomic.Int64

	mu       sync.Mutex
	closed   bool
	watchers int
	reader   *reader // nil while no board is open
	linger   *time.Timer
}

// New returns a board without watchers.
func New(parts Parts) *Board {
	b := &Board{parts: parts, titles: recent.NewMemory[video.ID, string](maxTitles, titleLife), budget: rate.NewLimiter(Budget, burst)}
	parts.Queues.OnSend(func(queue string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.reader != nil {
			b.reader.sent(queue)
		}
	})
	return b
}

// mayAsk reports whether one more storage request may be made now, and counts it.
func (b *Board) mayAsk() bool {
	allowed := b.budget.Allow()
	if allowed {
		b.requests.Add(1)
	}
	return allowed
}

// Requests is how often storage was asked for all watchers, since the start.
func (b *Board) Requests() int64 { return b.requests.Load() }

// Watchers is how many watch now.
func (b *Board) Watchers() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.watchers
}

// Watcher is one stream of states. Its methods are for one goroutine.
type Watcher struct {
	board  *Board
	reader *reader
	seen   *published
}

// Watch adds a watcher. The first one starts the reader. Each must be closed. ErrCrowded,
// ErrClosed.
func (b *Board) Watch() (*Watcher, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return nil, ErrClosed
	case b.watchers >= MaxWatchers:
		return nil, ErrCrowded
	}
	if b.reader == nil {
		b.reader = newReader(b)
		go b.reader.run()
	}
	b.watchers++
	return &Watcher{b, b.reader, b.reader.start}, nil
}

// Close ends the watching, once. The reader stops a moment after the last watcher left.
func (w *Watcher) Close() {
	b := w.board
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watchers--; b.watchers == 0 && b.reader != nil {
		b.linger = time.AfterFunc(linger, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.watchers == 0 {
				b.stop(ErrClosed)
			}
		})
	}
}

// Close ends all watching: Next returns [ErrClosed] from now on.
func (b *Board) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.stop(ErrClosed)
}

// stop ends the reader; its watchers are told why. The caller holds mu.
func (b *Board) stop(why error) {
	if b.linger != nil {
		b.linger.Stop()
	}
	if b.reader != nil {
		b.reader.cancel(why)
		b.reader = nil
	}
}

// Next waits for a state that the watcher has not seen and returns the newest, as JSON
// without line breaks, which all watchers share: read-only. A slow watcher misses those in
// between. An error before the first says why nothing could be read.
func (w *Watcher) Next(ctx context.Context) ([]byte, error) {
	p, err := w.next(ctx)
	if err != nil {
		return nil, err
	}
	return p.data, nil
}

func (w *Watcher) next(ctx context.Context) (*published, error) {
	select {
	case <-w.seen.replaced:
		w.seen = w.reader.newest.Load()
		return w.seen, nil
	case <-w.reader.ctx.Done():
		return nil, context.Cause(w.reader.ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Snapshot returns what a watcher would see first. While others watch it costs nothing.
func (b *Board) Snapshot(ctx context.Context) (api.BoardEvent, error) {
	p, err := b.now(ctx)
	return p.state, err
}

// Scale returns how many workers the queues want (paper rows Q4 and Q18). The answer may be
// 2 s old.
func (b *Board) Scale(ctx context.Context) (scaling.Decision, error) {
	p, err := b.now(ctx)
	if err != nil {
		return scaling.Decision{}, fmt.Errorf("count the workers wanted: %w", err)
	}
	return p.decision, nil
}

func (b *Board) now(ctx context.Context) (published, error) {
	w, err := b.Watch()
	if err != nil {
		return published{}, err
	}
	defer w.Close()
	p, err := w.next(ctx)
	if err != nil {
		return published{}, err
	}
	return *p, nil
}
