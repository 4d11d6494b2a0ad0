package scenes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/cutroom/cutroom/shared/azstorage"
)

// Kind says what an event is.
type Kind string

// The kinds of event.
const (
	Step  Kind = "step"  // what is about to happen
	Wire  Kind = "wire"  // a request and its answer
	Act   Kind = "act"   // something that an actor does without a request, such as being killed
	Note  Kind = "note"  // what it means
	Claim Kind = "claim" // a statement that was checked
	End   Kind = "end"   // the last event: Holds says whether all that was told was true
)

// Event is one thing that is told. From and To make it an arrow of the sequence
// diagram.
type Event struct {
	Number  int       `json:"number"`  // from 1
	Seconds float64   `json:"seconds"` // since the scene began
	Kind    Kind      `json:"kind"`
	Text    string    `json:"text"`
	From    string    `json:"from,omitempty"`  // who
	To      string    `json:"to,omitempty"`    // to whom; equal to From for what somebody does alone
	Reply   string    `json:"reply,omitempty"` // of a Wire event: the answer in a few words
	Holds   bool      `json:"holds"`           // of a Claim and of the End
	Wire    *Exchange `json:"wire,omitempty"`
}

// ErrFalse says that a scene made a claim that did not hold.
var ErrFalse = errors.New("the scene said something that is not true")

// Stage is what a scene plays on. It is safe for concurrent use.
type Stage struct {
	cfg    azstorage.Config // with the scene's own prefix
	cancel context.CancelCauseFunc
	ending context.Context // ends with the scene; connections are closed then

	answers map[string]string // to the questions of the scene, or none

	mu     sync.Mutex
	tell   func(Event)
	began  time.Time
	number int
	wires  []Event
	wrong  error // the first claim that did not hold
}

// Say tells what is about to happen.
func (s *Stage) Say(format string, args ...any) {
	s.emit(Event{Kind: Step, Text: fmt.Sprintf(format, args...)})
}

// Means tells what the last events mean.
func (s *Stage) Means(format string, args ...any) {
	s.emit(Event{Kind: Note, Text: fmt.Sprintf(format, args...)})
}

// Act tells what an actor does without a request.
func (s *Stage) Act(who, format string, args ...any) {
	s.emit(Event{Kind: Act, From: who, To: who, Text: fmt.Sprintf(format, args...)})
}

// Claim tells a statement that has just been checked. One that does not hold ends the
// scene: its context is cancelled, and [Run] returns [ErrFalse].
func (s *Stage) Claim(holds bool, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.emit(Event{Kind: Claim, Text: text, Holds: holds})
	if holds {
		return
	}
	err := fmt.Errorf("%w: %s", ErrFalse, text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wrong == nil {
		s.wrong = err
	}
	s.cancel(err)
}

// emit tells one event. Events of two actors never mix.
func (s *Stage) emit(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	e.Number, e.Seconds = s.number, time.Since(s.began).Seconds()
	if e.Kind == Wire {
		s.wires = append(s.wires, e)
	}
	s.tell(e)
}

// Option changes the account that an actor gets.
type Option func(*azstorage.Config)

// Account opens the storage account for an actor. Its requests are told as arrows
// from that actor. It panics when an option makes the configuration invalid, which is
// a mistake in the scene.
func (s *Stage) Account(actor string, options ...Option) *azstorage.Account {
	return s.open(actor, false, options)
}

func (s *Stage) open(actor string, worker bool, options []Option) *azstorage.Account {
	cfg := s.cfg
	for _, change := range options {
		change(&cfg)
	}
	transport := s.tapOf(actor, worker, cfg)
	transport.next, cfg.Transport = cfg.Transport, transport
	account, err := azstorage.Open(cfg)
	if err != nil {
		panic(err)
	}
	transport.account = account
	context.AfterFunc(s.ending, transport.close)
	return account
}

// holder is the transport of an actor who has no credential but signed URLs.
func (s *Stage) holder(actor string) *tap {
	t := s.tapOf(actor, false, s.cfg)
	t.account = s.Account(actor)
	context.AfterFunc(s.ending, t.close)
	return t
}

// tapOf makes an actor's transport. It is closed when the scene ends.
func (s *Stage) tapOf(actor string, worker bool, cfg azstorage.Config) *tap {
	return &tap{stage: s, actor: actor, worker: worker, cfg: cfg, client: &http.Client{Transport: &http.Transport{
		IdleConnTimeout: 3 * time.Second, MaxIdleConnsPerHost: 64, // before the emulator closes them, at 5 s
	}}}
}

// Worker is Account for an actor that asks all the time: polls that find nothing, and
// what a consumer asks beside its work, are not told.
func (s *Stage) Worker(actor string, options ...Option) *azstorage.Account {
	return s.open(actor, true, options)
}

// Told counts the exchanges told so far that match.
func (s *Stage) Told(match func(Event) bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.wires {
		if match(e) {
			n++
		}
	}
	return n
}
