package videostore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
)

// BudgetsTable holds the ledgers of work that anybody may ask for and that would fill a
// queue:
//
//	PartitionKey  clip, clip~<who asked>, or reprocess
//	RowKey        <video id>__<name of the clip, or generation>    Since
//
// A request writes its entry first and counts the entries of its kind second. So when
// several ask at once for the last place, too many of them may be refused, but not too
// many admitted. Workers do not write here. When a ledger is full, its entries are compared
// with the rows of the work, and those whose work has ended are removed, with those that
// a crash left.
const BudgetsTable = "budgets"

// ErrBusy says that the budget is used up. Asking again in some seconds may help.
var ErrBusy = errors.New("too much of this work is waiting already")

// Limits say how much work that anybody may ask for may be open at once. 0 is no limit.
type Limits struct {
	ClipsOfVideo  int // exact, because each request for a clip changes META's ETag
	Clips         int // of all videos
	Reprocessings int // of all videos; a retry is not counted

	Owner Quota // of each owner but the next
	Local Quota // of video.LocalOwner
}

// SetLimits is for the role that takes requests. Call it before the store is used.
func (s *Store) SetLimits(l Limits) { s.limits = l }

const (
	clipBudget      = "clip"
	ownClips        = "clip~" // and the requester
	reprocessBudget = "reprocess"
	// unpromised is how long an entry is kept whose work is not promised: its request
	// may still be in progress.
	unpromised = time.Minute
	// fullFor is how long a process refuses without asking storage again.
	fullFor = time.Second
)

// strike removes the entries of a video that is purged.
func (s *Store) strike(ctx context.Context, id video.ID) error {
	prefix := string(id) + tablestore.Separator
	for _, kind := range []string{clipBudget, reprocessBudget} {
		lines, err := collect(s.budgets.Query(ctx, tablestore.Query{
			PartitionKey: kind, RowFrom: prefix, RowTo: tablestore.PrefixEnd(prefix), Class: tablestore.RowRange,
		}))
		var ops []tablestore.Op
		for _, line := range lines {
			ops = append(ops, tablestore.Op{Kind: tablestore.OpDelete, Entity: line})
		}
		if err == nil {
			err = s.budgets.SubmitAll(ctx, ops)
		}
		if err != nil {
			return fmt.Errorf("strike out %s: %w", id, err)
		}
	}
	return nil
}

// lineState is the state of an entry's work.
type lineState int

const (
	lineOpen lineState = iota
	lineEnded
	lineAwaited // the work is not promised yet, or never will be
)

// ledger is what a process remembers of the ledgers.
type ledger struct {
	sweeping chan struct{} // one request at a time compares entries, the others wait for its result

	mu   sync.Mutex
	full map[string]time.Time // kind → when it was found full
}

func newLedger() *ledger {
	return &ledger{sweeping: make(chan struct{}, 1), full: map[string]time.Time{}}
}

func (l *ledger) isFull(kind string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.full[kind]) < fullFor {
		return true
	}
	delete(l.full, kind)
	return false
}

func (l *ledger) setFull(kind string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full[kind] = time.Now()
}

// reserve writes an entry, or returns ErrBusy when the budget of the kind is used up.
func (s *Store) reserve(ctx context.Context, kind string, limit int, line string) error {
	if limit == 0 {
		return nil
	}
	if s.ledger.isFull(kind) {
		return ErrBusy
	}
	etag, err := s.budgets.Upsert(ctx, tablestore.Entity{PartitionKey: kind, RowKey: line, Props: map[string]any{"Since": now()}})
	if err != nil {
		return fmt.Errorf("reserve %s: %w", line, err)
	}
	lines, err := s.lines(ctx, kind)
	if err != nil || len(lines) <= limit {
		return err
	}
	select {
	case s.ledger.sweeping <- struct{}{}:
		defer func() { <-s.ledger.sweeping }()
	case <-ctx.Done():
		return ctx.Err()
	}
	open := limit + 1
	if !s.ledger.isFull(kind) {
		if open, err = s.sweep(ctx, kind, line); err != nil {
			return err
		}
	}
	if open <= limit {
		return nil
	}
	s.ledger.setFull(kind)
	if err := s.budgets.Delete(ctx, kind, line, etag); err != nil && !isStale(err) {
		return fmt.Errorf("give back %s: %w", line, err)
	}
	return ErrBusy
}

func (s *Store) lines(ctx context.Context, kind string) ([]tablestore.Entity, error) {
	lines, err := collect(s.budgets.Query(ctx, tablestore.Query{PartitionKey: kind, Class: tablestore.RowRange}))
	if err != nil {
		return nil, fmt.Errorf("count what waits of %s: %w", kind, err)
	}
	return lines, nil
}

// sweep removes the entries whose work has ended and counts the others, own among them:
// a point read for each.
func (s *Store) sweep(ctx context.Context, kind, own string) (open int, _ error) {
	lines, err := s.lines(ctx, kind)
	if err != nil {
		return 0, err
	}
	for _, line := range lines {
		state := lineOpen
		if line.RowKey != own {
			if state, err = s.lineState(ctx, kind, line.RowKey); err != nil {
				return 0, err
			}
		}
		if state == lineOpen || state == lineAwaited && time.Since(line.Time("Since")) < unpromised {
			open++
			continue
		}
		if err := s.budgets.Delete(ctx, kind, line.RowKey, line.ETag); err != nil && !isStale(err) {
			return 0, fmt.Errorf("strike out %s: %w", line.RowKey, err)
		}
	}
	return open, nil
}

func (s *Store) lineState(ctx context.Context, kind, line string) (lineState, error) {
	id, name, _ := strings.Cut(line, tablestore.Separator)
	if kind == clipBudget || strings.HasPrefix(kind, ownClips) {
		key, err := ParseClipID(video.ID(id), name)
		if err != nil {
			return lineEnded, nil // not ours
		}
		clip, err := s.Clip(ctx, key)
		switch {
		case errors.Is(err, ErrNoClip):
			return lineAwaited, nil
		case err == nil && clip.State != StepQueued && clip.State != StepRunning:
			return lineEnded, nil
		}
		return lineOpen, err
	}
	generation, _ := strconv.Atoi(name)
	rec, err := s.Get(ctx, video.ID(id))
	switch {
	case errors.Is(err, ErrNotFound):
		return lineEnded, nil
	case err == nil && rec.Video.Generation < generation:
		return lineAwaited, nil
	case err == nil && (rec.Video.Generation > generation || !rec.Video.State.Active()):
		return lineEnded, nil
	}
	return lineOpen, err
}

// checkClips returns ErrBusy when a video has as many open clips as it may. The answer is
// valid while META is unchanged, because a request for a clip changes META's ETag.
func (s *Store) checkClips(ctx context.Context, id video.ID) error {
	limit := s.limits.ClipsOfVideo
	if limit == 0 {
		return nil
	}
	open, err := s.videos.First(ctx, tablestore.Query{
		PartitionKey: string(id), RowFrom: clipPrefix, RowTo: tablestore.PrefixEnd(clipPrefix),
		Filter: "State eq " + tablestore.Quote(string(StepQueued)) + " or State eq " + tablestore.Quote(string(StepRunning)),
		Select: []string{"PartitionKey", "RowKey"}, Class: tablestore.RowRange,
	}, limit)
	if err != nil {
		return fmt.Errorf("count open clips of %s: %w", id, err)
	}
	if len(open) >= limit {
		return ErrBusy
	}
	return nil
}
