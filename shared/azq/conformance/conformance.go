// Package conformance checks that a worker, a program in any language, keeps the rules of
// WORKER.md. It starts the program on queues of its own, sends messages of every kind, stops,
// freezes and kills it, and looks from outside: at the queue, the poison queue and the poison
// table. It believes nothing that the program says.
//
//	AZURE_STORAGE_CONNECTION_STRING=… go run github.com/cutroom/cutroom/shared/azq/cmd/conformance@v0.1.0 node worker.mjs
//
// The program reads its queue from the environment:
//
//	AZURE_STORAGE_CONNECTION_STRING  the account
//	AZQ_PREFIX                       begins the names of queues, tables and containers
//	AZQ_QUEUE                        the queue; "<queue>-poison", "poison" and "claims" are beside it
//	AZQ_VISIBILITY                   the visibility timeout to ask for, in seconds
//	AZQ_PAUSE                        until a message that went back, or failed, comes again, and
//	                                 between two looks at the queue's metadata, in seconds
//	AZQ_MAX_FAILURES                 the limit of failed attempts
//	AZQ_STALL                        how long work may make no progress, in seconds
//
// It has a handler for one kind, "azq.work.greet.v1". Its data is {"name": text, "seconds":
// number, "stuck": boolean}: the work is to wait so long (none if it is missing), making
// progress all the time; work that is stuck makes none and does not end until it is told to; an
// attempt without a name fails. SIGTERM asks the program to drain and to end.
//
// "replies" puts a proxy before the queues. It needs a connection string that names their
// address over http, as the emulator's does, and is left out otherwise.
package conformance

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
)

// Worker is the program to check.
type Worker struct {
	Command []string  // the program and its arguments
	Dir     string    // where it runs; empty: here
	Env     []string  // more variables for it, "NAME=value"
	Claims  bool      // it reads claim checks; otherwise it must give their items back
	Only    []string  // names of the rules to check; empty: all
	Output  io.Writer // what it prints; nil: nothing

	// Visibility is the timeout that the worker is told; whole seconds, default 5 s. It must be long
	// enough for the machine: a lease ends when the worker gets no processor for that long.
	Visibility time.Duration
	Patience   time.Duration // bounds every wait; default 30 s, and at least three times Visibility

	connection string // of the account
}

// Rule is one of the rules of a good worker. Its name is a heading of WORKER.md.
type Rule struct{ Name, Text string }

// Rules are the rules that [Check] knows, in the order of WORKER.md.
var Rules = []Rule{
	{"reads", "base64 of both alphabets, with padding or without, plain JSON and a byte order mark are read"},
	{"done", "a message is deleted after its work, and not before"},
	{"twice", "an item that comes twice does no harm"},
	{"keeps", "members that the worker does not know, and the data, stay as they are, byte for byte"},
	{"back", "a kind, a version or a claim check that the worker does not know goes back, at no cost"},
	{"failures", "a failed attempt is counted, with its reason, and comes again after a pause"},
	{"poison", "the last failed attempt makes a row, then a copy, and then the message goes"},
	{"malformed", "a text that is no work item is poison at once, as it came"},
	{"crashes", "an item that has ended many attempts without a word is poison"},
	{"lease", "no other worker gets the message while its work goes on"},
	{"moves", "work that makes no progress loses its message to others"},
	{"stale", "a worker that comes too late leaves the message alone, and goes on with the next"},
	{"replies", "a lost reply to a deletion or a renewal makes no poison and ends no worker"},
	{"claims", "the data of a claim check is fetched, but not another subject's"},
	{"paused", "nothing is received from a paused queue, until it is resumed"},
	{"drain", "SIGTERM gives unfinished work back at once, counted as a release, and ends the worker"},
	{"killed", "the work of a killed worker is done by the next"},
}

// Verdict is what became of a rule.
type Verdict struct {
	Rule
	Broken []string // how, for people; empty when the rule was kept
}

// What the worker is told beside its visibility timeout: short, for quick checks. A drain is
// checked with longLease, which does not end meanwhile.
const (
	longLease   = time.Minute
	pause       = time.Second
	maxFailures = 3
)

// Check runs the worker through every scene, four at a time, and returns a verdict for each rule
// that it was asked for, in the order of [Rules]. The account's prefix should belong to this call alone. The
// connection string is the account's, for the worker. What the check made is removed at the end.
// The error is one of the check itself.
func Check(ctx context.Context, account *azstore.Account, connection string, w Worker) ([]Verdict, error) {
	w.Visibility = cmp.Or(w.Visibility, 5*time.Second)
	w.Patience = max(cmp.Or(w.Patience, 30*time.Second), 3*w.Visibility)
	w.connection = connection
	w.Env = append(slices.Clone(w.Env), "AZURE_STORAGE_CONNECTION_STRING="+connection, "AZQ_PREFIX="+account.Prefix())
	tables := []string{azq.PoisonTable}
	containers := []string{azq.ClaimsContainer, azq.ControlContainer}
	if err := account.Ensure(ctx, azstore.Names{Containers: containers, Tables: tables}); err != nil {
		return nil, fmt.Errorf("conformance: %w", err)
	}
	c := &check{account: account, worker: w, broken: map[string][]string{}}
	var running sync.WaitGroup
	slots := make(chan struct{}, 4)
	for _, play := range w.scenes() {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			c.play(ctx, play)
		})
	}
	running.Wait()
	c.remove(ctx)
	var verdicts []Verdict
	for _, rule := range Rules {
		if w.asked(rule.Name) {
			verdicts = append(verdicts, Verdict{rule, c.broken[rule.Name]})
		}
	}
	return verdicts, c.err
}

// asked reports whether a rule is to be checked.
func (w Worker) asked(rule string) bool {
	proxied := strings.Contains(w.connection, queueEndpoint+"http://")
	return (w.Claims || rule != "claims") && (proxied || rule != "replies") && (len(w.Only) == 0 || slices.Contains(w.Only, rule))
}

// check is one call of Check.
type check struct {
	account *azstore.Account
	worker  Worker

	mu     sync.Mutex
	broken map[string][]string // by rule
	err    error
}

func (c *check) breaks(rule, how string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken[rule] = append(c.broken[rule], how)
}

func (c *check) remove(ctx context.Context) {
	_, err := c.account.Table(azq.PoisonTable).Delete(ctx, nil)
	c.err = cmp.Or(c.err, err)
	for _, name := range []string{azq.ClaimsContainer, azq.ControlContainer} {
		_, err := c.account.Container(name).Delete(ctx, nil)
		c.err = cmp.Or(c.err, err)
	}
}

// play plays a scene on a queue of its own.
func (c *check) play(ctx context.Context, play scene) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &stage{
		check: c, ctx: ctx, queueName: play.name, lease: c.worker.Visibility, limit: maxFailures,
		queue: c.account.Queue(play.name), poison: c.account.Queue(azq.PoisonName(play.name)),
	}
	s.failed(c.account.Ensure(ctx, azstore.Names{Queues: []string{play.name, azq.PoisonName(play.name)}}))
	play.run(s)
	s.kill()
	for _, queue := range []*azqueue.QueueClient{s.queue, s.poison} {
		_, err := queue.Delete(ctx, nil)
		s.failed(err)
	}
	if s.err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.err = cmp.Or(c.err, fmt.Errorf("conformance: scene %s: %w", play.name, s.err))
	}
}
