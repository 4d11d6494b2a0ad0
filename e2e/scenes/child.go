package scenes

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/cutroom/cutroom/shared/azstorage"
)

// The variables that make this program play one actor of a scene: whom, and the
// account's connection string, account and prefix as JSON.
const (
	childVariable   = "CUTROOM_SCENE_CHILD"
	accountVariable = "CUTROOM_SCENE_ACCOUNT"
)

// place is where a child finds the scene.
type place struct{ ConnectionString, Account, EndpointSuffix, Prefix string }

// Child is an actor that is a process of its own, so that it can be killed.
type Child struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	marks  chan string
	read   sync.WaitGroup
	killed sync.Once
}

// Start starts this program once more, as the actor that children has a function for.
// What it tells is told here.
func (s *Stage) Start(ctx context.Context, actor string) (*Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", actor, err)
	}
	where, err := json.Marshal(place{s.cfg.ConnectionString, s.cfg.Account, s.cfg.EndpointSuffix, s.cfg.Prefix})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", actor, err)
	}
	c := &Child{cmd: exec.CommandContext(ctx, self), marks: make(chan string, 100)}
	c.cmd.Env = append(os.Environ(), childVariable+"="+actor, accountVariable+"="+string(where))
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err == nil {
		c.stdin, err = c.cmd.StdinPipe()
	}
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", actor, err)
	}
	c.read.Go(func() { s.relay(out, c.marks) })
	return c, nil
}

// mark is the kind of an event that is for the parent's program and not for people.
const mark Kind = "mark"

// relay tells what a child tells.
func (s *Stage) relay(out io.Reader, marks chan<- string) {
	defer close(marks)
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return // it ended
		}
		var e Event
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		if e.Kind == mark {
			marks <- e.Text
			continue
		}
		s.emit(e)
	}
}

// Until waits for the child to say that it has come so far.
func (c *Child) Until(ctx context.Context, point string) error {
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %q: %w", point, context.Cause(ctx))
		case got, ok := <-c.marks:
			if !ok {
				return fmt.Errorf("wait for %q: the process ended", point)
			}
			if got == point {
				return nil
			}
		}
	}
}

// PID is the number of the process.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Freeze stops the process where it is, until Thaw: SIGSTOP.
func (c *Child) Freeze() error { return c.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen process go on: SIGCONT.
func (c *Child) Thaw() error { return c.cmd.Process.Signal(syscall.SIGCONT) }

// Kill is the crash: the process gets no chance to say or do anything. A second call
// does nothing.
func (c *Child) Kill() {
	c.killed.Do(func() {
		_ = c.cmd.Process.Kill()
		go func() { // a mark that nobody waits for must not keep the reader
			for range c.marks {
			}
		}()
		c.read.Wait()
		_ = c.cmd.Wait() // it was killed
		_ = c.stdin.Close()
	})
}

// Mark tells the scene in the parent process how far this one has come.
func (s *Stage) Mark(point string) { s.emit(Event{Kind: mark, Text: point}) }

// Hang works for ever, or until the parent ends.
func (s *Stage) Hang() error {
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// MaybeChild plays one actor and never returns if this process was started for that,
// and returns at once if it was not. Programs that play scenes call it first thing.
func MaybeChild() {
	actor := os.Getenv(childVariable)
	if actor == "" {
		return
	}
	if err := playChild(actor); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", actor, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func playChild(actor string) error {
	play := children[actor]
	if play == nil {
		return errors.New("no scene has this actor")
	}
	var where place
	if err := json.Unmarshal([]byte(os.Getenv(accountVariable)), &where); err != nil {
		return fmt.Errorf("%s: %w", accountVariable, err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	out := json.NewEncoder(os.Stdout)
	s := &Stage{
		cfg: azstorage.Config{
			ConnectionString: where.ConnectionString, Account: where.Account, EndpointSuffix: where.EndpointSuffix, Prefix: where.Prefix,
		},
		cancel: cancel, began: time.Now(), ending: ctx,
		tell: func(e Event) { _ = out.Encode(e) }, // a parent that is gone needs nothing
	}
	return play(ctx, s)
}
