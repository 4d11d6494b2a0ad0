package crash_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/videostore"
)

// history watches a video and remembers what must never happen.
type history struct {
	stop func()

	mu         sync.Mutex
	violations []string
}

// watch looks at a video five times a second until the test ends or stop is called.
func (l *lane) watch(id engine.ID) *history {
	ctx, cancel := context.WithCancel(l.t.Context())
	done := make(chan struct{})
	h := &history{stop: func() { cancel(); <-done }}
	l.t.Cleanup(h.stop)
	go func() {
		defer close(done)
		committed := map[engine.Key]string{} // step → the attempt that committed
		var before videostore.View
		for ctx.Err() == nil {
			view, err := l.videos.View(ctx, id)
			switch {
			case errors.Is(err, engine.ErrNotFound):
				return
			case err == nil:
				h.compare(before, view, committed)
				before = view
			}
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	return h
}

func (h *history) compare(before, now videostore.View, committed map[engine.Key]string) {
	for _, s := range now.Runs {
		if s.State != engine.RunDone {
			if committed[s.Key] != "" {
				h.violation("%s was done and is %s", s.Key, s.State)
			}
			continue
		}
		mark := s.Attempt + " at " + s.FinishedAt.String()
		if old := committed[s.Key]; old != "" && old != mark {
			h.violation("%s was committed twice: by %s, by %s", s.Key, old, mark)
		}
		committed[s.Key] = mark
	}
	if before.Subject.State == engine.Ready && now.Subject.State != engine.Ready && now.Subject.State != engine.Deleting {
		h.violation("the video was ready and is %s", now.Subject.State)
	}
	if before.Subject.Playable && !now.Subject.Playable {
		h.violation("the video was playable and is not")
	}
}

func (h *history) violation(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.violations = append(h.violations, fmt.Sprintf(format, args...))
}

// end stops watching and returns what was wrong.
func (h *history) end() []string {
	h.stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.violations
}
