package workqueue

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/cutroom/cutroom/shared/azstorage"
)

// How a message is settled depends on the error of its handler:
//
//	nil                    done: the message is deleted (paper row Q3)
//	Permanent(err)         poison at once: no further attempt can help
//	Unwanted(reason)       deleted and counted as unwanted: the work is obsolete
//	Snooze(d, reason)      snoozed for d; costs no attempt
//	RetryAfter(err, d)     retried after d: a failed attempt
//	trouble, see AsDependencyError released, at no cost: storage, the disk or the network
//	                       failed, which says nothing about the item
//	any other error        retried after a growing delay: a failed attempt
//
// The errors below are the causes with which a handler's context is cancelled.
var (
	// ErrLeaseLost says that another worker has the message, or that it is deleted
	// (paper row Q17). The handler must stop and write nothing; the message is left
	// alone.
	ErrLeaseLost = errors.New("lease lost: the message is not ours any more")

	// ErrReceiptLost says that a reply of the service was lost, and our newest
	// receipt with it. The message is hidden until Lease.Deadline and no worker can
	// settle it before. Work that ends by then may be committed. The message is then
	// delivered once more, and its handler finds the work done.
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

// Dependencies of a worker other than storage. Storage's are named by
// azstorage.Service, and handlers may name their own: see [AsDependencyError].
const (
	Disk   = "disk"   // the scratch directory is full, broken or read-only
	Host   = "host"   // out of memory, files or processes
	Killed = "killed" // a child process was killed from outside, mostly for lack of memory, or took too long by the clock
)

// AsDependencyError reports whether err is trouble: it is about something that the worker
// depends on and says nothing about the item. The item is then released at no cost.
// Only this function decides it. Trouble is:
//
//   - an error of storage that azstorage.DependencyOf recognises;
//   - an error in the chain with a method Dependency() string, which returns the
//     dependency: a handler's own errors may have it;
//   - an error of the operating system that says that the disk is full or broken, or
//     that the host has no memory, files or processes left.
//
// A missing blob that a row names, a conflict, a panic and all unknown errors are
// failures. They are counted, so that an item that meets a bug becomes poison.
func AsDependencyError(err error) (dependency string, ok bool) {
	if service, ok := azstorage.DependencyOf(err); ok {
		return string(service), true
	}
	var own interface{ Dependency() string }
	if errors.As(err, &own) {
		return own.Dependency(), true
	}
	for dependency, reasons := range hostTrouble {
		for _, reason := range reasons {
			if errors.Is(err, reason) {
				return dependency, true
			}
		}
	}
	return "", false
}

var hostTrouble = map[string][]syscall.Errno{
	Disk: {syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO},
	Host: {syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN},
}

// marked is an error that says how the message is settled.
type marked struct {
	error
	fate  fate
	delay time.Duration
}

type fate string

const permanent, snooze, retryAfter, unwanted fate = "permanent", "snooze", "retry after", "unwanted"

func (e *marked) Unwrap() error { return e.error }

// as returns the delay of err if the outermost mark in its chain is f.
func as(err error, f fate) (time.Duration, bool) {
	var m *marked
	if !errors.As(err, &m) || m.fate != f {
		return 0, false
	}
	return m.delay, true
}

// Permanent marks err as one that no further attempt can cure.
func Permanent(err error) error { return &marked{error: err, fate: permanent} }

// IsPermanent reports whether err was marked by [Permanent].
func IsPermanent(err error) bool {
	_, ok := as(err, permanent)
	return ok
}

// Snooze says that the work cannot be done yet: the message is hidden for d, which
// costs the item no attempt.
func Snooze(d time.Duration, reason string) error {
	return &marked{fmt.Errorf("snoozed for %v: %s", d, reason), snooze, d}
}

// AsSnooze returns the delay of a [Snooze] error.
func AsSnooze(err error) (time.Duration, bool) { return as(err, snooze) }

// RetryAfter marks err as a failed attempt and sets when the next one comes, for
// example because a service named a time.
func RetryAfter(err error, d time.Duration) error { return &marked{err, retryAfter, d} }

// AsRetryAfter returns the delay of a [RetryAfter] error.
func AsRetryAfter(err error) (time.Duration, bool) { return as(err, retryAfter) }

// Unwanted says that the item's work is no longer wanted. The message is deleted, logged,
// and not counted as completed.
func Unwanted(reason string) error { return &marked{error: errors.New(reason), fate: unwanted} }

// IsUnwanted reports whether a handler said [Unwanted].
func IsUnwanted(err error) bool {
	_, ok := as(err, unwanted)
	return ok
}
