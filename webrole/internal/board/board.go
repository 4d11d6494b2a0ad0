// Package board shows people what queues and workers do, while it happens. However
// many watch, storage is asked at most [Budget] times per second, and not at all when no
// board is open (docs/board.md). Nothing is taken by reading it, and what is shown may be a
// second or two old.
//
// Next: webrole/internal/httpapi, which sends it as server-sent events.
package board

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/jellydator/ttlcache/v3"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/recent"
	"github.com/cutroom/cutroom/webrole/internal/scaling"
	"github.com/cutroom/cutroom/webrole/internal/web"
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

// What watchers are told when [MaxWatchers] watch already, and when the role stops.
var (
	errCrowded = problem.New(problem.TooBusy, "Too many watch the board.")
	errClosed  = problem.New(problem.StorageBusy, "This web role stops. Ask again: another one answers.")
)

// Board is safe for concurrent use.
type Board struct {
	parts    web.Parts
	scale    *scaling.Window
	titles   *ttlcache.Cache[engine.ID, string]
	budget   *rate.Limiter   // outlives readers: opening the board again and again gets no more
	requests atomic.Int64    // to storage, since the start
	watchers atomic.Int64    // now
	ctx      context.Context // of all reading; ends with the board
	close    context.CancelFunc

	reading singleflight.Group
	reader  *reader // for the reading alone; nil unless it has read
}

// New returns a board without watchers.
func New(parts web.Parts, scale *scaling.Window) *Board {
	b := &Board{parts: parts, scale: scale, titles: recent.NewMemory[engine.ID, string](maxTitles, titleLife), budget: rate.NewLimiter(Budget, burst)}
	b.ctx, b.close = context.WithCancel(azstore.WithoutRetry(context.Background()))
	return b
}

// Close ends all watching: what is asked from now on fails.
func (b *Board) Close() { b.close() }

// State is what the board shows at a moment. All who watch share it: read-only.
type State struct {
	Event api.BoardEvent
	JSON  []byte // Event, without line breaks
	read  time.Time
	stale error // why some of it is older
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
			return nil, errClosed
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

// Scale returns how many workers the queues want. It fails while part of what boards show
// cannot be read: old numbers must not change a fleet. Safe to repeat.
func (b *Board) Scale(ctx context.Context) (api.Scale, error) {
	state, err := b.State(ctx)
	if err == nil {
		err = state.stale
	}
	if err != nil {
		return api.Scale{}, fmt.Errorf("count the workers wanted: %w", err)
	}
	return state.Event.Scale, nil
}

// Watch yields the newest state again and again, each once; a slow watcher misses those in
// between. An error is the end: too many watch, the role stops, or nothing could be read.
func (b *Board) Watch(ctx context.Context) iter.Seq2[*State, error] {
	return func(yield func(*State, error) bool) {
		defer b.watchers.Add(-1)
		if b.watchers.Add(1) > MaxWatchers {
			yield(nil, errCrowded)
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
