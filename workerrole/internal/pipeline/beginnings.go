package pipeline

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Beginnings lets what makes a video begin go before what makes it continue, in all
// workers of a machine: somebody waits for the first chunk and the first portion of
// sound, and on few cores ten other encoders would take most of the time from them.
//
// Who begins holds a shared lock on a file, which the kernel releases when the process
// ends in any way; the others wait until nobody holds it, or some time. Where there are
// many cores, or no file locks, nobody waits.
type Beginnings struct{ path string }

// beginningsFile lies in the directory that holds the workers' scratch directories.
const beginningsFile = "cutroom-beginnings.lock"

const (
	// fewCores is up to how many cores others wait.
	fewCores = 4
	// longestWait bounds that: under a load that makes beginnings slow, the others
	// must move on, too.
	longestWait = 3 * time.Second
	// beginningsPoll is the pause between two looks whether somebody still begins.
	beginningsPoll = 20 * time.Millisecond
)

// BeginningsIn returns the beginnings of the workers that keep their scratch directories
// in parent.
func BeginningsIn(parent string) *Beginnings {
	if !canFlock || runtime.GOMAXPROCS(0) > fewCores {
		return &Beginnings{}
	}
	b := &Beginnings{path: filepath.Join(parent, beginningsFile)}
	if f := b.open(); f != nil { // made now, so that work leaves no file behind
		_ = f.Close()
	}
	return b
}

// Begin is to be called before a beginning runs, and what it returns afterwards.
func (b *Beginnings) Begin() (end func()) {
	f := b.open()
	if f == nil || flockShared(f) != nil {
		return func() {}
	}
	return func() { _ = f.Close() } // which releases the lock
}

// Wait returns when nothing begins, ctx has ended or the longest wait is over.
func (b *Beginnings) Wait(ctx context.Context) {
	f := b.open()
	if f == nil {
		return
	}
	defer f.Close() //nolint:errcheck // nothing is written
	ctx, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	for flock(f) != nil { // the lock is released at once, by Close
		select {
		case <-time.After(beginningsPoll):
		case <-ctx.Done():
			return
		}
	}
}

// open returns nil where nobody waits, also when the file cannot be opened: the order
// of work is not worth failing for.
func (b *Beginnings) open() *os.File {
	if b.path == "" {
		return nil
	}
	f, err := os.OpenFile(b.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil
	}
	return f
}
