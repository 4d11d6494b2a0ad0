package scenes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// Prepare creates the queues of specs and what they need, without telling it.
func (s *Stage) Prepare(specs ...azq.Spec) {
	must(azq.Open(s.Account("stage"), azq.Options{Queues: specs}).Ensure(Quiet(s.ctx)))
}

// Ensure creates containers and tables, without telling it.
func (s *Stage) Ensure(containers []string, tables ...string) {
	must(s.Account("stage").Ensure(Quiet(s.ctx), azstore.Names{Containers: containers, Tables: tables}))
}

// Table opens a table for an actor.
func (s *Stage) Table(actor, name string, options ...Option) *tablestore.Table {
	return tablestore.New(s.Account(actor, options...), name)
}

// Blobs opens the blobs for an actor.
func (s *Stage) Blobs(actor string, options ...Option) *blobstore.Store {
	return blobstore.New(s.Account(actor, options...))
}

// desk is an actor's view of one queue.
type desk struct {
	*azq.Queue
	actor string
	ctx   context.Context
}

// Desk opens the queue of spec for an actor.
func (s *Stage) Desk(actor string, spec azq.Spec, options ...Option) desk {
	return desk{azq.Open(s.Account(actor, options...), azq.Options{Queues: []azq.Spec{spec}}).Queue(spec.Name), actor, s.ctx}
}

// quiet is the desk whose requests are not told.
func (d desk) quiet() desk {
	d.ctx = Quiet(d.ctx)
	return d
}

// put sends an item for each id.
func (d desk) put(step string, ids ...string) {
	for _, id := range ids {
		must(d.Send(d.ctx, get(azq.NewItem(step, "", id, nil)), 0, 0))
	}
}

// take receives n messages with one request, once all of them can be seen. It polls, and
// only the poll that finds them is told.
func (d desk) take(n int) (leases []*azq.Lease) {
	must(until(d.ctx, fmt.Sprintf("%s receives %d messages", d.actor, n), func() (bool, error) {
		if seen, err := d.Peek(Quiet(d.ctx), n); err != nil || len(seen) < n {
			return false, err
		}
		var err error
		leases, err = d.Receive(d.ctx, n)
		return len(leases) == n, err
	}))
	return leases
}

// takeOne receives one message.
func (d desk) takeOne() *azq.Lease { return d.take(1)[0] }

// delete deletes the message of a lease.
func (d desk) delete(l *azq.Lease) { must(l.Complete(d.ctx)) }

// length is the number of messages in the queue.
func (d desk) length() int64 { return get(d.Length(d.ctx)).Length }

// id is the id of the item in a message.
func id(l *azq.Lease) string { return get(l.Item()).ID }

// numbered returns n names.
func numbered(name string, n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprint(name, " ", i+1))
	}
	return ids
}

// Consume runs the product's consumer as an actor until stop is called.
func (s *Stage) Consume(ctx context.Context, actor string, spec azq.Spec, options azq.Options, road ...Option) (stop func()) {
	return s.consume(ctx, actor, []azq.Spec{spec}, options, road...)
}

func (s *Stage) consume(ctx context.Context, actor string, specs []azq.Spec, options azq.Options, road ...Option) (stop func()) {
	options.Worker, options.Log, options.Pools = actor, slog.New(slog.DiscardHandler), map[string]int{specs[0].Pool: 1}
	options.Queues = specs
	c := azq.Open(s.Worker(actor, road...), options)
	must(c.Ensure(Quiet(ctx)))
	running, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	wait.Go(func() { must(c.Run(running)) })
	return func() { cancel(); wait.Wait() }
}

// diary is what workers did, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.lines)
}

// has waits until so many lines are written.
func (d *diary) has(s *Stage, n int) {
	s.until(fmt.Sprintf("%d items are done", n), func() (bool, error) { return len(d.read()) >= n, nil })
}

// working has a handler for a step that takes so long and notes what it did.
func (d *diary) working(step string, took time.Duration) map[string]azq.Handler {
	return map[string]azq.Handler{step: azq.HandlerFunc(func(ctx context.Context, job *azq.RawJob) error {
		if err := sleep(ctx, took); err != nil {
			return err
		}
		d.note(job.Item.ID)
		return nil
	})}
}

// ffmpeg makes a file.
func ffmpeg(ctx context.Context, arguments, out string) error {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "ffmpeg", append(append([]string{"-nostdin", "-v", "error", "-y"}, strings.Fields(arguments)...), out)...)
	cmd.Stderr = &said
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("ffmpeg is not installed: run 'make bootstrap'")
	}
	if err != nil {
		return fmt.Errorf("ffmpeg %s: %w: %s", arguments, err, said.String())
	}
	return nil
}
