package azq

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
)

// How a message is settled depends on the error of its handler:
//
//	nil                    done: the message is deleted (paper row Q3)
//	Permanent(err)         poison at once: no further attempt can help; ErrMalformed, too
//	Unwanted(reason)       deleted and counted as unwanted: the work is obsolete
//	Snooze(d, reason)      snoozed for d; costs no attempt
//	RetryAfter(err, d)     retried after d: a failed attempt
//	Trouble(what, err)     released at no cost, as other errors are: see AsDependencyError
//	any other error        retried after a growing delay: a failed attempt
//
// The errors below are the causes with which a handler's context is cancelled.
var (
	// ErrLeaseLost says that another worker has the message, or that it is deleted
	// (paper row Q17). The handler must stop and write nothing.
	ErrLeaseLost = errors.New("lease lost: the message is not ours any more")

	// ErrReceiptLost says that a reply of the service was lost, and our newest
	// receipt with it. The message is hidden until Lease.Deadline and no worker can
	// settle it before. Work that ends by then may be committed: the next delivery finds it.
	ErrReceiptLost = errors.New("receipt lost with a reply: the message cannot be settled any more")

	// ErrLeaseEnding says that the lease could not be renewed. The handler must
	// stop before another worker can get the message (paper row Q16c).
	ErrLeaseEnding = errors.New("lease ends soon and could not be renewed")

	// ErrDraining says that the worker stops. The message is released, which costs
	// the item no attempt.
	ErrDraining = errors.New("worker is draining")

	// ErrStalled says that the handler made no progress for too long.
	ErrStalled = errors.New("no progress")
)

// ErrKilled is why an item is poison whose child processes were killed eight times.
var ErrKilled = errors.New("its processes were killed")

// Dependencies of a worker other than azstore's services and those that handlers name.
const (
	Disk   = "disk"   // the scratch directory is full, broken or read-only
	Host   = "host"   // out of memory, files or processes
	Killed = "killed" // a child process was killed from outside, mostly for lack of memory, or took too long by the clock
)

// AsDependencyError reports whether err is trouble: it is about something that the worker
// depends on and says nothing about the item. The item is then released at no cost.
// Trouble is an error of storage ([azstore.DependencyOf]), one with a method Dependency()
// string, and one of the operating system about a full disk, memory, files or processes.
func AsDependencyError(err error) (dependency string, ok bool) {
	if service, ok := azstore.DependencyOf(err); ok {
		return string(service), true
	}
	var own interface{ Dependency() string }
	if errors.As(err, &own) {
		return own.Dependency(), true
	}
	reason, _ := errors.AsType[syscall.Errno](err)
	switch reason {
	case syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO:
		return Disk, true
	case syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN:
		return Host, true
	}
	return "", false
}

type trouble struct {
	error
	dependency string
}

func (t *trouble) Unwrap() error { return t.error }

// Dependency is what AsDependencyError asks for.
func (t *trouble) Dependency() string { return t.dependency }

// Trouble marks err as one of something that the worker depends on, such as [Disk].
func Trouble(dependency string, err error) error { return &trouble{err, dependency} }

// Fate is what a handler's error asks for.
type Fate string

// The fates. An error without a mark has none: it is trouble or a failure.
const (
	FatePoison   Fate = "poison"      // Permanent
	FateUnwanted Fate = "unwanted"    // Unwanted
	FateSnoozed  Fate = "snoozed"     // Snooze
	FateRetried  Fate = "retry after" // RetryAfter
)

type marked struct {
	error
	fate  Fate
	delay time.Duration
}

func (e *marked) Unwrap() error { return e.error }

// FateOf returns what the outermost mark in the chain of err asks for, and its delay.
func FateOf(err error) (Fate, time.Duration) {
	if m, ok := errors.AsType[*marked](err); ok {
		return m.fate, m.delay
	}
	return "", 0
}

// Permanent marks err as one that no further attempt can cure.
func Permanent(err error) error { return &marked{error: err, fate: FatePoison} }

// Snooze says that the work cannot be done yet: the message is hidden for d, which
// costs the item no attempt.
func Snooze(d time.Duration, reason string) error {
	return &marked{fmt.Errorf("snoozed for %v: %s", d, reason), FateSnoozed, d}
}

// RetryAfter marks err as a failed attempt and sets when the next one comes, for
// example because a service named a time. A d of 0 leaves that to the consumer.
func RetryAfter(err error, d time.Duration) error { return &marked{err, FateRetried, d} }

// Unwanted says that the item's work is no longer wanted. The message is deleted, logged,
// and not counted as completed.
func Unwanted(reason string) error { return &marked{error: errors.New(reason), fate: FateUnwanted} }
