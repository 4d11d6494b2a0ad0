package scenes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azurite"
	"github.com/cutroom/cutroom/shared/scene"
)

// programs has the program of every scene, whose story is in package scene, and children
// that of every actor that is a process of its own. Each file registers those that it has.
var programs, children = map[string]func(*Stage){}, map[string]func(*Stage){}

func register(in map[string]func(*Stage), name string, program func(*Stage)) struct{} {
	in[name] = program
	return struct{}{}
}

// ErrUnknown says that there is no scene of a name.
var ErrUnknown = errors.New("there is no such scene")

// longest bounds a scene.
const longest = 2 * time.Minute

// Run plays a scene in the account of cfg, below a prefix of its own, and removes what
// it made there. tell gets each event as it happens, one at a time, and must not block
// for long; the last is of kind [End]. The error says why the scene broke off, or that
// it made a claim that did not hold: [ErrFalse].
//
// Answers to the scene's questions may be nil; [ErrAnswer] is for wrong ones.
func Run(ctx context.Context, cfg azstore.Config, name string, answers map[string]string, tell func(Event)) error {
	program := programs[name]
	sc, listed := scene.Find(name)
	if program == nil || !listed {
		return fmt.Errorf("play scene %q: %w", name, ErrUnknown)
	}
	if err := CheckAnswers(sc, answers); err != nil {
		return fmt.Errorf("play scene %s: %w", name, err)
	}
	told := sc.Story
	if len(answers) > 0 {
		told = sc.Answered
	}
	story, err := readLines(told)
	if err != nil {
		return fmt.Errorf("play scene %s: %w", name, err)
	}
	if err := run(ctx, cfg, program, story, answers, tell); err != nil {
		return fmt.Errorf("play scene %s: %w", name, err)
	}
	return nil
}

func run(ctx context.Context, cfg azstore.Config, program func(*Stage), story []Line, answers map[string]string, tell func(Event)) error {
	cfg.Prefix = fmt.Sprintf("s%09x", rand.Uint64()&0xfffffffff)
	account, err := azstore.Open(cfg)
	if err != nil {
		return err
	}
	defer account.CloseIdle()

	playing, stop := context.WithTimeout(ctx, longest)
	s := &Stage{ctx: playing, cfg: cfg, tell: tell, began: time.Now(), story: story, answers: answers}
	err = s.perform(program)
	stop()

	clean, stopCleaning := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer stopCleaning()
	if cleanErr := azurite.Clean(clean, account); cleanErr != nil {
		err = errors.Join(err, fmt.Errorf("remove what the scene made: %w", cleanErr))
	}
	end := Event{Kind: End, Text: "Everything that was told was true.", Holds: err == nil}
	if err != nil {
		end.Text = azstore.Redact(err.Error())
	}
	s.emit(end)
	return err
}

// brokenOff is what a program panics with to end its scene, as a test does with FailNow.
// Only the goroutine of the program may.
type brokenOff struct{ err error }

// must ends the scene when something fails of which the story does not tell.
func must(err error) {
	if err != nil {
		panic(brokenOff{err})
	}
}

// get is must for what returns something.
func get[T any](v T, err error) T {
	must(err)
	return v
}

// perform plays a program to its end, or to where it breaks off.
func (s *Stage) perform(program func(*Stage)) (err error) {
	defer func() {
		if p := recover(); p != nil {
			b, ours := p.(brokenOff)
			if !ours {
				panic(p)
			}
			err = b.err
		}
	}()
	s.advance(nil)
	program(s)
	if len(s.story) > 0 {
		return fmt.Errorf("%w: %q", errUntold, s.story[0].Text)
	}
	return nil
}

// until polls check every 50 ms until it is true, ctx ends, or too long has passed.
func until(ctx context.Context, condition string, check func() (bool, error)) error {
	deadline := time.After(30 * time.Second)
	for {
		done, err := check()
		if err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", condition, context.Cause(ctx))
		case <-deadline:
			return fmt.Errorf("wait until %s: it took more than 30 s", condition)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// until is the function until, which must succeed.
func (s *Stage) until(condition string, check func() (bool, error)) {
	must(until(s.ctx, condition, check))
}

// sleep is a pause of the scene itself: an actor works, or sleeps.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
