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
// ends in any way, and sets the time of the file. The others wait until nobody holds the
// lock. The latest beginning counts for longestWait only: it may be stopped, or wait for
// storage. Where there are many cores, or no file locks, nobody waits.
type Beginnings struct{ path string }

// beginningsFile lies in the directory that holds the workers' scratch directories.
const beginningsFile = "cutroom-beginnings.lock"

const (
	// fewCores is up to how many cores others wait.
	fewCores = 4
	// longestWait bounds how long a beginning is waited for, and how long work waits for
	// one after the other: under a load that makes them slow, the others must move on.
	longestWait = 3 * time.Second
	// beginningsPoll is the pause between two looks whether somebody still begins.
	beginningsPoll = 20 * time.Millisecond
	// beginWithin bounds how long a beginning tries to take the lock. Who waits holds
	// the exclusive one for an instant, unless its process is stopped just then.
	beginWithin = 100 * time.Millisecond
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
	if f == nil {
		return func() {}
	}
	now := time.Now()
	_ = os.Chtimes(b.path, now, now)
	for flockShared(f) != nil {
		if time.Since(now) > beginWithin {
			break // nobody waits for this one
		}
		time.Sleep(time.Millisecond)
	}
	return func() { release(f) }
}

// Wait returns when nothing begins, ctx has ended or the longest wait is over.
func (b *Beginnings) Wait(ctx context.Context) {
	f := b.open()
	if f == nil {
		return
	}
	defer release(f)
	ctx, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	for flock(f) != nil { // a lock that is taken here is released at once
		if latest, err := f.Stat(); err != nil || time.Since(latest.ModTime()) >= longestWait {
			return
		}
		select {
		case <-time.After(beginningsPoll):
		case <-ctx.Done():
			return
		}
	}
}

// release ends the lock of f, if there is one. Nothing is written, so no error matters.
func release(f *os.File) {
	_ = unlock(f)
	_ = f.Close()
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
