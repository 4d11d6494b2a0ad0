// Package board shows people what queues and workers do, while it happens. However
// many watch, storage is asked at most [Budget] times per second, and not at all when no
// board is open (docs/board.md). Nothing is taken by reading it, and what is shown may be a
// second or two old.
//
// Next: webrole/internal/httpapi, which sends it as server-sent events.
package board

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"github.com/jellydator/ttlcache/v3"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/workers"
	"github.com/cutroom/cutroom/shared/videostore"
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

// memory is how long a state is gone on from. After a longer pause everything is read anew.
const memory = idleEvery

var (
	// ErrCrowded says that [MaxWatchers] watch already.
	ErrCrowded = errors.New("too many watch the board")
	// ErrClosed says that the role stops.
	ErrClosed = errors.New("the board is closed")
)

// Parts is what a board is read from.
type Parts struct {
	Queues  *azq.Client
	Workers *workers.Register
	Videos  *videostore.Store // for their titles
	Scale   *scaling.Window
}

// Board is safe for concurrent use.
type Board struct {
	parts    Parts
	titles   *ttlcache.Cache[engine.ID, string]
	budget   *rate.Limiter // outlives readers: opening the board again and again gets no more
	requests atomic.Int64
	watchers atomic.Int64
	ctx      context.Context // of all reading; ends with the board
	close    context.CancelFunc

	reading singleflight.Group
	reader  *reader // for the reading alone; nil unless it has read
}

// New returns a board without watchers.
func New(parts Parts) *Board {
	b := &Board{parts: parts, titles: recent.NewMemory[engine.ID, string](maxTitles, titleLife), budget: rate.NewLimiter(Budget, burst)}
	b.ctx, b.close = context.WithCancel(azstore.WithoutRetry(context.Background()))
	return b
}

// Close ends all watching: what is asked from now on fails with [ErrClosed].
func (b *Board) Close() { b.close() }

// Requests is how often storage was asked for all watchers, since the start.
func (b *Board) Requests() int64 { return b.requests.Load() }

// Watchers is how many watch now.
func (b *Board) Watchers() int64 { return b.watchers.Load() }

// State is what the board shows at a moment. All who watch share it: read-only.
type State struct {
	Event    api.BoardEvent
	JSON     []byte           // Event, without line breaks
	Decision scaling.Decision // how many workers the queues want (paper rows Q4 and Q18)
	read     time.Time
}

// State returns what is known, at most 500 ms old and read for all who ask at the same
// time. An error says why nothing could be read.
func (b *Board) State(ctx context.Context) (*State, error) {
	reading := b.reading.DoChan("", func() (any, error) { return b.read() })
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case result := <-reading:
		if b.ctx.Err() != nil {
			return nil, ErrClosed
		}
		state, _ := result.Val.(*State)
		return state, result.Err
	}
}

func (b *Board) read() (*State, error) {
	r := b.reader
	if r == nil || time.Since(r.shown.read) > memory {
		r = newReader(b)
	} else if time.Since(r.shown.read) < passEvery {
		return r.shown, nil
	}
	b.reader = nil
	if err := r.read(); err != nil {
		return nil, err
	}
	b.reader = r
	return r.shown, nil
}

// Watch yields the newest state again and again, each once; a slow watcher misses those in
// between. An error is the end: [ErrCrowded], [ErrClosed], or why nothing could be read.
func (b *Board) Watch(ctx context.Context) iter.Seq2[*State, error] {
	return func(yield func(*State, error) bool) {
		defer b.watchers.Add(-1)
		if b.watchers.Add(1) > MaxWatchers {
			yield(nil, ErrCrowded)
			return
		}
		for seen := (*State)(nil); ; {
			state, err := b.State(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			if state != seen && !yield(state, nil) {
				return
			}
			seen = state
			select {
			case <-ctx.Done():
			case <-b.ctx.Done():
			case <-time.After(passEvery - time.Since(state.read)):
			}
		}
	}
}
