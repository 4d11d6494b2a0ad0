package scenes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/cutroom/cutroom/shared/azstore"
)

// The kinds of events beside those of a story's lines.
const (
	Wire Kind = "wire" // a request and its answer
	End  Kind = "end"  // the last event: Holds says whether all that was told was true
)

// Event is one thing that is told. From and To make it an arrow of the sequence
// diagram.
type Event struct {
	Number  int       `json:"number"`  // from 1
	Seconds float64   `json:"seconds"` // since the scene began
	Kind    Kind      `json:"kind"`
	Text    string    `json:"text"`
	From    string    `json:"from,omitempty"`  // who
	To      string    `json:"to,omitempty"`    // to whom; equal to From for what an actor does alone
	Reply   string    `json:"reply,omitempty"` // of a Wire event: the answer in a few words
	Holds   bool      `json:"holds"`           // of a Claim and of the End
	Wire    *Exchange `json:"wire,omitempty"`
}

// ErrFalse says that a scene made a claim that did not hold.
var ErrFalse = errors.New("the scene said something that is not true")

// A story and its program that do not fit together.
var (
	errUntold = errors.New("the program ended, and its story goes on")
	errUnfit  = errors.New("the story has something else to tell")
)

// Stage is where a scene plays. Next and Claim, which tell its story, are for the
// scene's program alone; the rest is safe for concurrent use.
type Stage struct {
	ctx     context.Context // of what the program does; connections are closed when it ends
	cfg     azstore.Config
	story   []Line
	answers map[string]string // to the questions of the scene, or none

	mu     sync.Mutex
	tell   func(Event)
	began  time.Time
	number int
	wires  []Event
}

// Next goes on with the story after a pause, up to the next pause or claim. The values
// are those of the next line.
func (s *Stage) Next(values ...any) {
	if len(s.story) == 0 || s.story[0].Kind == Claim {
		must(fmt.Errorf("%w: Next%q", errUnfit, values))
	}
	s.advance(values)
}

func (s *Stage) advance(values []any) {
	for len(s.story) > 0 && s.story[0].Kind != Claim {
		line := s.story[0]
		s.story = s.story[1:]
		if line.Kind == Pause {
			break
		}
		s.emit(Event{Kind: line.Kind, From: line.Who, To: line.Who, Text: filled(line.Text, values)})
		values = nil
	}
}

// Claim tells the story's next line, which is a claim that has just been checked, and
// goes on as Next does. A claim that does not hold ends the scene with [ErrFalse].
func (s *Stage) Claim(holds bool, values ...any) {
	if len(s.story) == 0 || s.story[0].Kind != Claim {
		must(fmt.Errorf("%w: Claim%q", errUnfit, values))
	}
	text := filled(s.story[0].Text, values)
	s.story = s.story[1:]
	s.emit(Event{Kind: Claim, Text: text, Holds: holds})
	if !holds {
		must(fmt.Errorf("%w: %s", ErrFalse, text))
	}
	s.advance(nil)
}

// filled is a line with its values. Values that do not fit end the scene.
func filled(text string, values []any) string {
	whole := fmt.Sprintf(text, values...)
	if strings.Contains(whole, "%!") {
		must(fmt.Errorf("%w: %s", errUnfit, whole))
	}
	return whole
}

// Act tells what an actor does without a request, beside the story.
func (s *Stage) Act(program, format string, values ...any) {
	s.emit(Event{Kind: Act, From: program, To: program, Text: fmt.Sprintf(format, values...)})
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

// ToldOf counts the exchanges of an actor.
func (s *Stage) ToldOf(actor string) int {
	return s.Told(func(e Event) bool { return e.From == actor })
}

// Option changes the account that an actor gets.
type Option func(*azstore.Config)

// Account opens the storage account for an actor. Its requests are told as arrows
// from that actor. It panics when an option makes the configuration invalid, which is
// a mistake in the scene.
func (s *Stage) Account(actor string, options ...Option) *azstore.Account {
	return s.open(actor, false, options)
}

// Worker is Account for an actor that asks all the time: polls that find nothing, and
// what a consumer asks beside its work, are not told.
func (s *Stage) Worker(actor string, options ...Option) *azstore.Account {
	return s.open(actor, true, options)
}

func (s *Stage) open(actor string, worker bool, options []Option) *azstore.Account {
	cfg := s.cfg
	for _, change := range options {
		change(&cfg)
	}
	transport := s.tapOf(actor, worker, cfg)
	transport.next, cfg.Transport = cfg.Transport, transport
	account, err := azstore.Open(cfg)
	if err != nil {
		panic(err)
	}
	transport.account = account
	return account
}

// tapOf makes an actor's transport. It is closed when the scene ends.
func (s *Stage) tapOf(actor string, worker bool, cfg azstore.Config) *tap {
	t := &tap{stage: s, actor: actor, worker: worker, cfg: cfg, client: &http.Client{Transport: &http.Transport{
		IdleConnTimeout: 3 * time.Second, MaxIdleConnsPerHost: 64, // before the emulator closes them, at 5 s
	}}}
	context.AfterFunc(s.ctx, t.close)
	return t
}

// own is the transport of an actor who does not use our accounts.
func (s *Stage) own(actor string, worker bool, options ...Option) *tap {
	cfg := s.cfg
	for _, change := range options {
		change(&cfg)
	}
	t := s.tapOf(actor, worker, cfg)
	t.next, t.account = cfg.Transport, s.Account(actor)
	return t
}

// Key opens a blob for an actor who has nothing but a signed URL, which may create it.
func (s *Stage) Key(actor, container, name string, options ...Option) *blockblob.Client {
	url := get(s.Account("web role").SignCreate(Quiet(s.ctx), container, name, time.Minute))
	return get(blockblob.NewClientWithNoCredential(url, &blockblob.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: s.own(actor, false, options...), Retry: policy.RetryOptions{MaxRetries: -1},
	}}))
}
