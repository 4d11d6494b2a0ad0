// Package scenario plays the scene of the 2008 paper "Windows Azure Queue" that
// explains the visibility timeout (paper row Q11), with real processes:
//
//	producers P1 and P2 put messages 1 and 2
//	1. C1 dequeues message 1
//	2. C2 dequeues message 2
//	3. C2 deletes message 2
//	4. C1 crashes
//	5. message 1 becomes visible again when its visibility timeout ends
//	6. C2 dequeues message 1
//	7. C2 deletes message 1
//
// C1 is a process of its own, and its crash is a SIGKILL.
package scenario

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/shared/workitem"
	"github.com/cutroom/cutroom/shared/workqueue"
)

// Visibility is how long a dequeued message is hidden in this scene. The paper
// says 30 seconds; nobody likes to wait that long.
const Visibility = 3 * time.Second

// Result is what happened, for tests.
type Result struct {
	CrashedWith  string        // the message that C1 held
	DoneByC2     []string      // what C2 deleted, in order
	HiddenFor    time.Duration // from before C1's dequeue to C2's dequeue of the same message
	DequeueCount int64         // of that message when C2 got it
	Left         int64         // messages in the queue at the end
}

// Run plays the scene in the account of cfg and tells it on w. It takes about
// four seconds, uses a queue of its own and removes it. The program that calls
// it must call [MaybeConsumer] first thing in main.
func Run(ctx context.Context, w io.Writer, cfg azstorage.Config) (Result, error) {
	account, err := azstorage.Open(cfg)
	if err != nil {
		return Result{}, fmt.Errorf("scenario: %w", err)
	}
	defer account.CloseIdle()
	name := fmt.Sprintf("scenario-%08x", rand.Uint32())
	queues := open(account, name)
	if err := queues.Ensure(ctx); err != nil {
		return Result{}, fmt.Errorf("scenario: %w", err)
	}
	s := &scene{queue: queues.Queue(name), cfg: cfg, out: w, began: time.Now()}
	result, err := s.play(ctx)
	if deleteErr := s.queue.Delete(context.WithoutCancel(ctx)); err == nil {
		err = deleteErr
	}
	if err != nil {
		return result, fmt.Errorf("scenario: %w", err)
	}
	return result, nil
}

func open(a *azstorage.Account, name string) *workqueue.Queues {
	return workqueue.OpenAll(a, []workqueue.Spec{{Name: name, Pool: workflow.Light, Visibility: Visibility, Weight: 1, MaxIdlePoll: time.Second, MaxFailures: 5}})
}

type scene struct {
	queue *workqueue.Queue
	cfg   azstorage.Config
	out   io.Writer
	began time.Time
}

func (s *scene) play(ctx context.Context) (Result, error) {
	var r Result
	for i, producer := range []string{"P1", "P2"} {
		id := fmt.Sprint("message ", i+1)
		item, err := workitem.New("scene", "paper", id, nil)
		if err != nil {
			return r, err
		}
		if err := s.queue.Send(ctx, item, 0); err != nil {
			return r, err
		}
		s.tell(producer, "puts %s", id)
	}

	c1, err := s.startC1(ctx)
	if err != nil {
		return r, err
	}
	defer c1.kill() // whatever happens below
	r.CrashedWith = c1.holds
	s.tell("C1", "(process %d) dequeues %s; it is hidden from everybody else for %v", c1.cmd.Process.Pid, c1.holds, Visibility)

	second, err := s.dequeue(ctx, "C2")
	if err != nil {
		return r, err
	}
	if err := s.delete(ctx, &r, second); err != nil {
		return r, err
	}

	c1.kill()
	s.tell("C1", "crashes (SIGKILL) and has deleted nothing: %s is still hidden", c1.holds)

	s.tell("C2", "looks for work until %s becomes visible again …", c1.holds)
	first, err := s.dequeue(ctx, "C2")
	if err != nil {
		return r, err
	}
	r.HiddenFor, r.DequeueCount = time.Since(c1.asked), first.DequeueCount()
	if err := s.delete(ctx, &r, first); err != nil {
		return r, err
	}

	state, err := s.queue.Length(ctx)
	if err != nil {
		return r, err
	}
	r.Left = state.Length
	s.tell("Queue", "holds %d messages: nothing was lost, although a consumer was", r.Left)
	return r, nil
}

// dequeue polls until a message comes.
func (s *scene) dequeue(ctx context.Context, who string) (*workqueue.Lease, error) {
	for {
		got, err := s.queue.Receive(ctx, 1)
		if err != nil {
			return nil, err
		}
		if len(got) == 1 {
			item, err := got[0].Item()
			if err != nil {
				return nil, err
			}
			s.tell(who, "dequeues %s (delivery number %d)", item.ID, got[0].DequeueCount())
			return got[0], nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (s *scene) delete(ctx context.Context, r *Result, lease *workqueue.Lease) error {
	item, err := lease.Item()
	if err != nil {
		return err
	}
	if err := lease.Complete(ctx); err != nil {
		return err
	}
	r.DoneByC2 = append(r.DoneByC2, item.ID)
	s.tell("C2", "deletes %s: its work is done", item.ID)
	return nil
}

func (s *scene) tell(who, format string, args ...any) {
	fmt.Fprintf(s.out, "%5.1fs  %-5s  %s\n", time.Since(s.began).Seconds(), who, fmt.Sprintf(format, args...))
}

// child is the process of C1.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	asked time.Time // before it was started, so before it dequeued
	holds string
}

// The variable that makes this program play C1; its value is the queue.
const roleVariable = "CUTROOM_SCENARIO_C1"

const dequeued = "dequeued "

// startC1 starts this program once more, as C1, and waits until it holds a message.
func (s *scene) startC1(ctx context.Context) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start C1: %w", err)
	}
	c := &child{cmd: exec.CommandContext(ctx, self), asked: time.Now()}
	c.cmd.Env = append(os.Environ(), roleVariable+"="+s.queue.Name(),
		"AZURE_STORAGE_CONNECTION_STRING="+s.cfg.ConnectionString, "AZURE_STORAGE_ACCOUNT="+s.cfg.Account, "CUTROOM_PREFIX="+s.cfg.Prefix)
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start C1: %w", err)
	}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start C1: %w", err)
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start C1: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	holds, found := strings.CutPrefix(strings.TrimSpace(line), dequeued)
	if !found {
		c.kill()
		return nil, fmt.Errorf("start C1: it said %q: %w", line, errors.Join(err, errors.New("want the message that it dequeued")))
	}
	c.holds = holds
	return c, nil
}

// kill is the crash: the process gets no chance to say or do anything. A second
// call does nothing.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
	_ = c.stdin.Close()
}

// MaybeConsumer plays C1 and never returns if this process was started for that,
// and returns at once if it was not.
func MaybeConsumer() {
	name := os.Getenv(roleVariable)
	if name == "" {
		return
	}
	if err := consumeAndHang(name); err != nil {
		fmt.Fprintln(os.Stderr, "C1:", err)
	}
	os.Exit(1) // C1 never ends well
}

// consumeAndHang dequeues one message, says so, and works on it for ever.
func consumeAndHang(name string) error {
	cfg, err := azstorage.ConfigFromEnv(os.Getenv)
	if err != nil {
		return err
	}
	account, err := azstorage.Open(cfg)
	if err != nil {
		return err
	}
	got, err := open(account, name).Queue(name).Receive(context.Background(), 1)
	if err != nil {
		return err
	}
	if len(got) != 1 {
		return errors.New("the queue is empty")
	}
	item, err := got[0].Item()
	if err != nil {
		return err
	}
	fmt.Println(dequeued + item.ID)
	_, err = io.Copy(io.Discard, os.Stdin) // until we are killed, or our parent is
	return err
}
