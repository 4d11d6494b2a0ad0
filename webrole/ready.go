package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cutroom/cutroom/shared/azstorage"
)

const (
	readyTimeout = 3 * time.Second
	readyMemory  = time.Second // how long one look at storage answers all callers
)

var (
	errDraining = errors.New("the role is stopping")
	errNoAnswer = errors.New("storage does not answer")
)

// readiness says whether this role should be sent requests. Any client may ask, as
// often as they like: storage is asked once a second at most.
type readiness struct {
	probe    func(context.Context) error
	draining atomic.Bool

	mu    sync.Mutex // held while storage is asked: the others wait for the same answer
	asked time.Time
	err   error
}

// drain makes every check fail from now on.
func (r *readiness) drain() { r.draining.Store(true) }

// check returns why not, in words for any client; the log has the reason.
func (r *readiness) check(ctx context.Context) error {
	if r.draining.Load() {
		return errDraining
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.asked) < readyMemory {
		return r.err
	}
	// Others wait for this answer, so it is not the caller's to cancel.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	r.err = nil
	if err := r.probe(azstorage.WithoutRetry(ctx)); err != nil {
		slog.WarnContext(ctx, "storage does not answer", "error", err)
		r.err = errNoAnswer
	}
	r.asked = time.Now()
	return r.err
}
