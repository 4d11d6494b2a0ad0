//go:build linux || darwin || freebsd || openbsd || netbsd || dragonfly

package pipeline

import (
	"context"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// Each opening of the file has a lock of its own, so two values are what two processes are.
func TestWorkWaitsForBeginningsOfAnyWorkerAtMostSoLong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		one, other := &Beginnings{path: dir + "/lock"}, &Beginnings{path: dir + "/lock"}
		waited := func(ctx context.Context) time.Duration {
			began := time.Now()
			other.Wait(ctx)
			return time.Since(began)
		}
		if d := waited(t.Context()); d != 0 {
			t.Errorf("waited %v for nobody", d)
		}
		time.AfterFunc(time.Second, one.Begin())
		time.AfterFunc(2*time.Second, other.Begin())
		if d := waited(t.Context()); d < 2*time.Second || d > 2*time.Second+beginningsPoll {
			t.Errorf("waited %v, want until both have ended, 2s", d)
		}
		end := one.Begin()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if d := waited(ctx); d != time.Second {
			t.Errorf("waited %v with a context that ended after 1s", d)
		}
		end()
		end = one.Begin()
		if d := waited(t.Context()); d < longestWait || d > longestWait+beginningsPoll {
			t.Errorf("waited %v for one that does not end, want %v", d, longestWait)
		}
		if d := waited(t.Context()); d != 0 {
			t.Errorf("waited %v more for the same one, which may be stopped", d)
		}
		end()
		if d := waited(t.Context()); d != 0 {
			t.Errorf("waited %v after the last one ended", d)
		}
		stopped := other.open() // in the instant in which it looks
		if err := flock(stopped); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		one.Begin()()
		if d := time.Since(began); d > 2*beginWithin {
			t.Errorf("began after %v, want at most %v", d, beginWithin)
		}
		_ = stopped.Close()
	})
}

// Between fork and exec a child of this process has every file open that the process has,
// so closing a file does not end its lock. The second descriptor here is the child's.
func TestALockEndsThoughAChildHasTheFile(t *testing.T) {
	t.Parallel()
	b := &Beginnings{path: t.TempDir() + "/lock"}
	f, other := b.open(), b.open()
	defer other.Close() //nolint:errcheck // nothing is written
	if err := flockShared(f); err != nil {
		t.Fatal(err)
	}
	child, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(child) //nolint:errcheck // nothing is written
	if flock(other) == nil {
		t.Fatal("the lock is not held")
	}
	release(f)
	if err := flock(other); err != nil {
		t.Errorf("after its release: %v", err)
	}
}

func TestNobodyWaitsWithoutTheFile(t *testing.T) {
	t.Parallel()
	b := &Beginnings{path: t.TempDir() + "/no/such/folder/lock"}
	defer b.Begin()()
	ctx, cancel := context.WithTimeout(t.Context(), longestWait/2)
	defer cancel()
	if b.Wait(ctx); ctx.Err() != nil {
		t.Error("waited for a file that cannot be opened")
	}
}
