package workqueue

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/cutroom/cutroom/shared/azstorage"
)

// What becomes of a message is decided by the error of its handler:
//
//	nil                    done: the message is deleted (paper row Q3)
//	Permanent(err)         poison at once: no further attempt can help
//	Unwanted(reason)       deleted and counted as such: nobody wants the work
//	Snooze(d, reason)      put back for d; costs no attempt
//	RetryAfter(err, d)     a failed attempt, the next one after d
//	trouble, see AsTrouble given back: storage, the disk or the network failed,
//	                       which says nothing about the item; costs no attempt
//	any other error        a failed attempt, the next one after a growing delay
//
// The causes below are the reasons why a handler's context is cancelled.
var (
	// ErrLeaseLost says that the message belongs to somebody else, or to nobody
	// any more (paper row Q17). Whoever gets it stops, drops the item quietly
	// and writes nothing.
	ErrLeaseLost = errors.New("lease lost: the message is not ours any more")

	// ErrReceiptLost says that a reply of the service, and with it our newest
	// receipt, was lost. The message is hidden until Lease.Deadline and nobody
	// can settle it before; work that fits may be finished and committed. The
	// message then comes once more, and its handler finds the work done.
	ErrReceiptLost = errors.New("receipt lost with a reply: the message cannot be settled any more")

	// ErrLeaseEnding says that the lease could not be renewed and ends soon:
	// processing stops before its visibility does (paper row Q16c).
	ErrLeaseEnding = errors.New("lease ends soon and could not be renewed")

	// ErrDraining says that the worker stops. The item is given back and the
	// interruption costs it no attempt.
	ErrDraining = errors.New("worker is draining")

	// ErrStalled says that the work made no progress for too long.
	ErrStalled = errors.New("no progress")
)

// Dependencies that a worker has besides storage, whose own names are those of
// azstorage.Service. Handlers may add their own: see [AsTrouble].
const (
	Disk   = "disk"   // the scratch directory is full, broken or read-only
	Host   = "host"   // out of memory, files or processes
	Killed = "killed" // a child process was killed from outside, mostly for lack of memory
)

// AsTrouble reports whether err is about something that a worker depends on, and
// on what, instead of about the item: then the item is innocent and goes back
// without cost. This is the only place that decides it:
//
//   - an answer of storage, or none, as azstorage.Trouble defines it;
//   - an error in the chain with a method Trouble() string that says the
//     dependency, as a handler's own errors may;
//   - a disk that is full or broken, and a host without memory, files or
//     processes to spare, as the operating system says it.
//
// A missing blob that a row names, a conflict, a panic and everything unknown
// are not trouble: they are failures and are counted, so that a bug's item ends.
func AsTrouble(err error) (dependency string, ok bool) {
	if service, ok := azstorage.Trouble(err); ok {
		return string(service), true
	}
	var own interface{ Trouble() string }
	if errors.As(err, &own) {
		return own.Trouble(), true
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

// marked is an error that says what is to become of the message.
type marked struct {
	error
	fate  fate
	delay time.Duration
}

type fate string

const permanent, snooze, retryAfter, unwanted fate = "permanent", "snooze", "retry after", "unwanted"

func (e *marked) Unwrap() error { return e.error }

// as returns the delay of err if the outermost mark in its chain is of that fate.
func as(err error, f fate) (time.Duration, bool) {
	var m *marked
	if !errors.As(err, &m) || m.fate != f {
		return 0, false
	}
	return m.delay, true
}

// Permanent marks err as one that no further attempt will cure.
func Permanent(err error) error { return &marked{error: err, fate: permanent} }

// IsPermanent reports whether err was marked by [Permanent].
func IsPermanent(err error) bool {
	_, ok := as(err, permanent)
	return ok
}

// Snooze puts the item back for d without costing it an attempt: the work is not
// due yet, or is waiting for something else.
func Snooze(d time.Duration, reason string) error {
	return &marked{fmt.Errorf("snoozed for %v: %s", d, reason), snooze, d}
}

// AsSnooze returns the delay of a [Snooze] error.
func AsSnooze(err error) (time.Duration, bool) { return as(err, snooze) }

// RetryAfter marks err as a failed attempt whose next one comes after d, for
// example because a service said so.
func RetryAfter(err error, d time.Duration) error { return &marked{err, retryAfter, d} }

// AsRetryAfter returns the delay of a [RetryAfter] error.
func AsRetryAfter(err error) (time.Duration, bool) { return as(err, retryAfter) }

// Unwanted says that nobody wants the item's work any more, or ever did: the
// message is deleted, logged, and not counted as completed.
func Unwanted(reason string) error { return &marked{error: errors.New(reason), fate: unwanted} }

// IsUnwanted reports whether a handler said [Unwanted].
func IsUnwanted(err error) bool {
	_, ok := as(err, unwanted)
	return ok
}
