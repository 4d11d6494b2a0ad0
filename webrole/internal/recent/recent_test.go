package recent_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cutroom/cutroom/webrole/internal/recent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func never(int64, time.Duration) bool  { return false }
func always(int64, time.Duration) bool { return true }

// Many who ask for the newest share readings, and each gets one that began after
// it asked.
func TestReadingsAreShared(t *testing.T) {
	t.Parallel()
	var written, readings atomic.Int64
	c := recent.New(4, func(context.Context, string) (int64, error) {
		readings.Add(1)
		v := written.Load()
		time.Sleep(5 * time.Millisecond)
		return v, nil
	})
	start := time.Now()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 10 {
				before := written.Add(1)
				got, err := c.Get(t.Context(), "key", never)
				if err != nil || got < before {
					t.Errorf("Get = %d, %v; %d was written before", got, err, before)
				}
			}
		})
	}
	wg.Wait()
	// Each of the ten rounds takes two readings, when it comes during one.
	if n := readings.Load(); n > 25 {
		t.Errorf("500 requests in %v made %d readings, want about 11 to 20", time.Since(start), n)
	}
	before := readings.Load()
	for range 100 {
		if _, err := c.Get(t.Context(), "key", always); err != nil {
			t.Error(err)
		}
	}
	if n := readings.Load() - before; n != 0 {
		t.Errorf("%d readings of what is known", n)
	}
}

// Anyone who stops waiting does not take the others with him.
func TestOneCancellationFailsNoOther(t *testing.T) {
	t.Parallel()
	begun, let := make(chan struct{}), make(chan struct{})
	c := recent.New(4, func(ctx context.Context, _ string) (int64, error) {
		close(begun)
		<-let
		return 7, ctx.Err()
	})
	first, cancel := context.WithCancel(t.Context())
	gone, got := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := c.Get(first, "key", never)
		gone <- err
	}()
	<-begun
	go func() { // joins, for the reading that is under way is enough
		v, err := c.Get(t.Context(), "key", func(v int64, _ time.Duration) bool { return v == 7 })
		if v != 7 && err == nil {
			err = errors.New("another value")
		}
		got <- err
	}()
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the first: %v, want its cancellation", err)
	}
	close(let)
	if err := <-got; err != nil {
		t.Errorf("the second: %v", err)
	}
}

func TestCacheIsBoundedAndForgetsFailures(t *testing.T) {
	t.Parallel()
	failure := errors.New("away")
	fail := true
	c := recent.New(4, func(_ context.Context, key int) (int64, error) {
		if key == 0 && fail {
			return 0, failure
		}
		return int64(key), nil
	})
	if _, err := c.Get(t.Context(), 0, always); !errors.Is(err, failure) || c.Len() != 0 {
		t.Errorf("a failed reading: %v, %d remembered", err, c.Len())
	}
	fail = false
	for key := range 20 {
		if v, err := c.Get(t.Context(), key, always); err != nil || v != int64(key) {
			t.Errorf("Get(%d) = %d, %v", key, v, err)
		}
	}
	if n := c.Len(); n != 4 {
		t.Errorf("%d values are remembered, want 4", n)
	}
}
