package ffmpeg

import (
	"errors"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// A program that wants a processor moves, though it says nothing: one that is stopped, and
// one that computes, until it has had enough. One that waits for something else does not.
func TestStarvedProgramsHaveNotStalled(t *testing.T) {
	t.Parallel()
	const look = 20 * time.Millisecond
	watch := func(t *testing.T, most time.Duration, program ...string) *atomic.Int64 {
		cmd := exec.CommandContext(t.Context(), program[0], program[1:]...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var told atomic.Int64
		end := watchStarved(cmd.Process.Pid, look, most, func() int64 { return 0 }, func() { told.Add(1) })
		t.Cleanup(func() {
			end()
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // killed
		})
		return &told
	}
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		told := watch(t, time.Hour, "sh", "-c", "kill -STOP $$")
		azuritetest.Eventually(t, time.Minute, func() error {
			if told.Load() < 10 {
				return errors.New("it counts as stalled")
			}
			return nil
		})
	})
	t.Run("computes", func(t *testing.T) {
		t.Parallel()
		const most = 300 * time.Millisecond
		told := watch(t, most, "sh", "-c", "while :; do :; done")
		azuritetest.Eventually(t, time.Minute, func() error {
			if told.Load() == 0 {
				return errors.New("it counts as stalled")
			}
			return nil
		})
		azuritetest.Eventually(t, time.Minute, func() error { // it has had enough, and says no more
			before := told.Load()
			time.Sleep(5 * look)
			if told.Load() != before {
				return errors.New("it counts as moving without end")
			}
			return nil
		})
	})
	t.Run("waits", func(t *testing.T) {
		t.Parallel()
		told := watch(t, time.Hour, "sleep", "60")
		time.Sleep(20 * look)
		if n := told.Load(); n > 3 { // as it begins it wants one, too
			t.Errorf("a program that sleeps was seen to move %d times", n)
		}
	})
}
