package ffmpeg

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestLaterChunksWaitForFirstOnesAtMostSoLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f firsts
		waited := func(ctx context.Context) time.Duration {
			began := time.Now()
			f.wait(ctx, 3*time.Second)
			return time.Since(began)
		}
		if d := waited(t.Context()); d != 0 {
			t.Errorf("waited %v for nobody", d)
		}
		f.begin()
		f.begin()
		time.AfterFunc(time.Second, f.end)
		time.AfterFunc(2*time.Second, f.end)
		if d := waited(t.Context()); d != 2*time.Second {
			t.Errorf("waited %v, want until both have ended, 2s", d)
		}
		f.begin()
		if d := waited(t.Context()); d != 3*time.Second {
			t.Errorf("waited %v for one that does not end, want 3s", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if d := waited(ctx); d != time.Second {
			t.Errorf("waited %v with a context that ended after 1s", d)
		}
		f.end()
		if d := waited(t.Context()); d != 0 {
			t.Errorf("waited %v after the last one ended", d)
		}
	})
}
