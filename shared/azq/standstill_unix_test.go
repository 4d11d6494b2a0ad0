//go:build unix

package azq_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// standstill is the variable that makes TestStandstillIsNoStall the process that stands
// still. It holds the prefix of the account.
const standstill = "CUTROOM_TEST_STANDSTILL"

// A process that stands still for longer than work may make no progress has not stalled:
// a suspended machine, a debugger, a paused container. Whether its lease has ended
// meanwhile or not, the item pays nothing.
func TestStandstillIsNoStall(t *testing.T) {
	if prefix := os.Getenv(standstill); prefix != "" {
		standStill(t, prefix)
		return
	}
	t.Parallel()
	for name, visibility := range map[string]time.Duration{"lease goes on": time.Minute, "lease has ended": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := azuritetest.Account(t)
			qs := azqtest.Open(t, a, oneQueue(visibility))
			send(t, qs, jobs, "x")
			cmd := exec.Command(os.Args[0], "-test.run=^TestStandstillIsNoStall$") //nolint:gosec // this binary
			cmd.Env = append(os.Environ(), standstill+"="+a.Prefix(), azuritetest.Variable+"="+azuritetest.ConnectionString(t), "VISIBILITY="+visibility.String())
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			begun, told, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer begun.Close() //nolint:errcheck // reading only
			cmd.ExtraFiles = []*os.File{told}
			goOn, err := cmd.StdinPipe()
			if err == nil {
				err = cmd.Start()
			}
			_ = told.Close() // the child has it
			if err != nil {
				t.Fatal(err)
			}
			defer cmd.Process.Kill() //nolint:errcheck // has ended unless the test failed
			if _, err := bufio.NewReader(begun).ReadString('\n'); err != nil {
				t.Fatalf("the work has not begun: %v", err)
			}
			if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * stallAfter) // so long it stands still
			if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			_ = goOn.Close()
			if err := cmd.Wait(); err != nil {
				t.Errorf("the process that stood still: %v", err)
			}
		})
	}
}

const stallAfter = 2 * time.Second

// standStill works on one item, and looks at what it cost.
func standStill(t *testing.T, prefix string) {
	visibility, err := time.ParseDuration(os.Getenv("VISIBILITY"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := azstore.Open(azstore.Config{ConnectionString: azuritetest.ConnectionString(t), Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	defer a.CloseIdle()
	qs := azq.Open(a, azq.Options{Queues: []azq.Spec{oneQueue(visibility)}})
	h := azqtest.Recorder{Next: func(ctx context.Context, job *azq.RawJob) error {
		if job.DequeueCount > 1 {
			return nil
		}
		_, _ = os.NewFile(3, "begun").WriteString("begun\n")
		_, _ = os.Stdin.Read(make([]byte, 1)) // until it is told to go on
		select {                              // the work takes a little more
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(stallAfter / 2):
			return nil
		}
	}}
	c, drain := run(t, qs, &h, func(o *azq.Options) { o.StallAfter = stallAfter })
	azqtest.WaitEmpty(t, qs.Queue(jobs))
	drain()
	if s := azqtest.Counts(c.Stats(), jobs); s.Stalled != 0 || s.Failed != 0 || s.Completed != 1 {
		t.Errorf("counters %+v", s)
	}
}
