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
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
)

// The variables that make this program play one actor of a scene: its name, and the
// account's connection string, account and prefix as JSON.
const (
	childVariable   = "CUTROOM_SCENE_CHILD"
	accountVariable = "CUTROOM_SCENE_ACCOUNT"
)

// place is where a child finds the scene.
type place struct{ ConnectionString, Account, EndpointSuffix, Prefix string }

// Child is an actor that is a process of its own, so that it can be killed.
type Child struct {
	ctx    context.Context
	cmd    *exec.Cmd
	stdin  io.Closer
	marks  chan string
	read   sync.WaitGroup
	killed sync.Once
}

// Start starts this program once more, as the actor that children has a function for.
// What it tells is told here.
func (s *Stage) Start(actor string) *Child {
	account := get(json.Marshal(place{s.cfg.ConnectionString, s.cfg.Account, s.cfg.EndpointSuffix, s.cfg.Prefix}))
	c := &Child{ctx: s.ctx, cmd: exec.CommandContext(s.ctx, get(os.Executable())), marks: make(chan string, 100)}
	c.cmd.Env = append(os.Environ(), childVariable+"="+actor, accountVariable+"="+string(account))
	c.cmd.Stderr = os.Stderr
	out := get(c.cmd.StdoutPipe())
	c.stdin = get(c.cmd.StdinPipe())
	must(c.cmd.Start())
	c.read.Go(func() { s.relay(out, c.marks) })
	return c
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
		switch {
		case json.Unmarshal(line, &e) != nil:
		case e.Kind == mark:
			marks <- e.Text
		default:
			s.emit(e)
		}
	}
}

// Until waits for the child to say that it has come so far.
func (c *Child) Until(point string) {
	for {
		select {
		case <-c.ctx.Done():
			must(fmt.Errorf("wait for %q: %w", point, context.Cause(c.ctx)))
		case got, ok := <-c.marks:
			if !ok {
				must(fmt.Errorf("wait for %q: the process ended", point))
			}
			if got == point {
				return
			}
		}
	}
}

// PID is the number of the process.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Kill is the crash: the process gets no chance to say or do anything. A second call
// does nothing.
func (c *Child) Kill() {
	c.killed.Do(func() {
		_ = c.cmd.Process.Kill()
		go func() { // a mark for which the scene does not wait must not keep the reader
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
func (s *Stage) Hang() { _ = get(io.Copy(io.Discard, os.Stdin)) }

// A process that was started to play one actor does that, whichever program it is, and
// never comes to main.
func init() {
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
	program := children[actor]
	if program == nil {
		return errors.New("no scene has this actor")
	}
	var account place
	if err := json.Unmarshal([]byte(os.Getenv(accountVariable)), &account); err != nil {
		return fmt.Errorf("%s: %w", accountVariable, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out := json.NewEncoder(os.Stdout)
	s := &Stage{
		ctx: ctx, cfg: azstore.Config{
			ConnectionString: account.ConnectionString, Account: account.Account, EndpointSuffix: account.EndpointSuffix, Prefix: account.Prefix,
		},
		began: time.Now(), tell: func(e Event) { _ = out.Encode(e) }, // a parent that is gone needs nothing
	}
	return s.perform(program)
}
