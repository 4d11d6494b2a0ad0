package azuritetest

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

// Patience is how long a test waits, before it gives up, for what takes less than limit
// on a machine at rest. Where processes wait for processors it is longer by as many as
// there are for each: how fast a busy machine is says nothing about the code. What a test
// claims about time it must measure, and say only of a machine at rest.
func Patience(limit time.Duration) time.Duration {
	minute, now := runnable()
	return time.Duration(float64(limit) * max(1, max(minute, now)/float64(runtime.NumCPU())))
}

// Bound is what a test that has the machine for itself may hold a duration to: limit, or
// longer by as many processes as others ran for each processor when the tests began. Unlike
// Patience it does not grow with what the test itself starts.
func Bound(limit time.Duration) time.Duration {
	return time.Duration(float64(limit) * max(1, others/float64(runtime.NumCPU())))
}

var _, others = runnable()

// runnable is how many processes run or wait for a processor: on average during the last
// minute, and now. 0 where the system does not say; see proc(5).
func runnable() (minute, now float64) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, 0
	}
	var five, fifteen float64
	if _, err := fmt.Sscanf(string(text), "%f %f %f %f/", &minute, &five, &fifteen, &now); err != nil {
		return 0, 0
	}
	return minute, now
}

// Late reports whether more than Patience of limit has passed since a wait began.
func Late(began time.Time, limit time.Duration) bool { return time.Since(began) > Patience(limit) }

// Pace is the pause before a test that has waited since began looks again: a tenth of that
// time, from 20 to 500 ms. Looking costs the emulator and the program what they need for
// what is waited for.
func Pace(began time.Time) time.Duration {
	return min(max(time.Since(began)/10, 20*time.Millisecond), 500*time.Millisecond)
}

// Poll looks again and again until done is true, and reports whether it was within the
// Patience of limit.
func Poll(limit time.Duration, done func() bool) bool {
	for began := time.Now(); ; time.Sleep(Pace(began)) {
		if done() {
			return true
		}
		if Late(began, limit) {
			return false
		}
	}
}

// Eventually polls check until it returns nil, or fails the test with its last
// error after the Patience of within.
func Eventually(t testing.TB, within time.Duration, check func() error) {
	t.Helper()
	var err error
	if !Poll(within, func() bool { err = check(); return err == nil }) {
		t.Fatalf("not within %v: %v", Patience(within), err)
	}
}

// Slow leaves a test out with -short, and says why.
func Slow(t testing.TB, reason string) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: " + reason)
	}
}
