package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cutroom/cutroom/e2e/load"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azurite"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

// Options says how long to run what.
type Options struct {
	Seed     uint64
	Duration time.Duration // of load and faults; waiting for rest and checks come after
	// Visibility of all queues. 0: 8 s. A machine that is busy with other things
	// needs more: a lease must outlast a request that waits for a processor.
	Visibility time.Duration
	// Bin holds the built roles. Empty: they are built.
	Bin string
	// Settle is how long nothing may change on the way to rest. 0: six minutes, for
	// the reconciler looks at an old video every five.
	// While something does, a busy machine is waited for, three times as long at most.
	Settle time.Duration
	// FirstFinding ends the soak as soon as something is wrong.
	FirstFinding bool
	Log          io.Writer
}

// Clocks are short, here and those of upkeep, so that minutes hold what takes
// hours elsewhere.
const usualVisibility = 8 * time.Second

// How many there are of each role.
const (
	workers = 3
	webs    = 2
)

func (o Options) complete() Options {
	if o.Log == nil {
		o.Log = io.Discard
	}
	if o.Visibility == 0 {
		o.Visibility = usualVisibility
	}
	if o.Settle == 0 {
		o.Settle = 6 * time.Minute
	}
	return o
}

func (o Options) say(format string, args ...any) {
	_, _ = fmt.Fprintf(o.Log, "soak: "+format+"\n", args...)
}

// Run soaks a stack of its own and returns what came of it. The error is about
// the soak itself; what is wrong with the stack is in Report.Findings. There may
// be both: a report is worth reading though the emulator did not stop in time.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	o = o.complete()
	dir, err := os.MkdirTemp("", "cutroom-soak-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the soak: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	report := &Report{Options: o, Started: time.Now()}
	o.say("seed %d, %v", o.Seed, o.Duration)
	p := makePlan(o.Seed, o.Duration)
	p.print(o.Log)
	sources, err := makeClips(ctx, dir)
	if err != nil {
		return nil, err
	}

	emulator, err := azurite.Start(ctx, azurite.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, emulator.Stop()) }()
	proxy, err := inject.Start(emulator.ConnectionString(), o.Seed)
	if err != nil {
		return nil, err
	}
	defer proxy.Close()
	account, err := azstore.Open(azstore.Config{ConnectionString: emulator.ConnectionString()})
	if err != nil {
		return nil, err
	}
	defer account.CloseIdle()
	scratch := filepath.Join(dir, "scratch")
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return nil, fmt.Errorf("make a folder for the soak: %w", err)
	}
	r, err := startRoles(ctx, o, dir, scratch, proxy.ConnectionString())
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Stop() }()
	return report.soak(ctx, r, p, sources, proxy, storage{account}, dir, scratch)
}

// roles are a stack and the names of its roles.
type roles struct {
	*stack.Stack
	webs, workers []string
}

// startRoles starts the stack behind the proxy.
func startRoles(ctx context.Context, o Options, dir, scratch, connection string) (_ *roles, err error) {
	s, err := stack.Start(ctx, stack.Options{
		Dir: filepath.Join(dir, "stack"), Bin: o.Bin, ConnectionString: connection, Supervise: true,
		Env: []string{
			"CUTROOM_VISIBILITY=*=" + o.Visibility.String(),
			"CUTROOM_RECONCILE_INTERVAL=2s", "CUTROOM_RECONCILE_GRACE=3s",
			"CUTROOM_JANITOR_INTERVAL=3s", "CUTROOM_JANITOR_GRACE=30s", // longer than an attempt, which it protects
			"CUTROOM_PURGE_LINGER=2s", "WORKERROLE_DRAIN_TIMEOUT=10s",
			"WORKERROLE_SCRATCH=" + scratch, "WORKERROLE_POOLS=light=4,heavy=2",
		},
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = s.Stop()
		}
	}()
	r := &roles{Stack: s, webs: []string{stack.Web}}
	for len(r.webs) < webs {
		name, err := s.AddWeb(ctx)
		if err != nil {
			return nil, err
		}
		r.webs = append(r.webs, name)
	}
	for n := range workers {
		name, err := s.AddWorker(ctx, "WORKERROLE_NAME="+workerName(n))
		if err != nil {
			return nil, err
		}
		r.workers = append(r.workers, name)
	}
	return r, nil
}

// soak lets the plan happen, waits for rest, checks what is there and stops the roles.
func (r *Report) soak(ctx context.Context, on *roles, p plan, sources []*clip, proxy *inject.Proxy, outside storage, dir, scratch string) (*Report, error) {
	o := r.Options
	var turn atomic.Int64
	gate := func() string { return on.WebURL(on.webs[int(turn.Add(1))%webs]) } // as a load balancer chooses
	people, err := newUsers(gate, time.Now().Add(o.Duration+patience))
	if err != nil {
		return nil, err
	}
	watcher, meter := newWatcher(outside), newMeter(on.Stack)
	people.planned, people.outage = outside.planned, proxy.Outage
	trouble := &chaos{
		stack: on.Stack, storage: outside, proxy: proxy, watcher: watcher, workers: on.workers, webs: on.webs, dir: dir,
		busy: make([]sync.Mutex, workers), counts: map[string]int{},
	}
	watching, stopWatching := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	watchers.Go(func() { watcher.run(watching) })
	watchers.Go(func() { meter.run(watching) })
	defer func() { stopWatching(); watchers.Wait() }()

	o.say("load and faults for %v", o.Duration)
	living, stopLiving := context.WithCancel(ctx)
	defer stopLiving()
	lives := liveAll(living, o, p, sources, people, trouble)
	proxy.Calm()
	trouble.end()
	o.say("calm; waiting for the users to finish, then for rest")
	enough := func() bool { return o.FirstFinding && len(watcher.found()) > 0 }
	if enough() {
		stopLiving()
	}
	lives.Wait()
	r.Loaded = time.Since(r.Started)

	c := &checker{storage: outside, histories: people.histories, base: on.BaseURL(), scratch: scratch, http: &http.Client{Timeout: 30 * time.Second}}
	calm := time.Now()
	left := c.awaitRest(ctx, o, enough)
	r.Settled = time.Since(calm)
	var wrong []string
	if !enough() && (!o.FirstFinding || len(left) == 0) {
		o.say("%d things keep it from rest after %v; checking what is there", len(left), r.Settled.Round(time.Second))
		var err error
		if wrong, err = c.contents(ctx, len(left) == 0); err != nil {
			return nil, err
		}
	}
	stopWatching()
	watchers.Wait()
	r.add("must never happen", watcher.found())
	r.add("not at rest", left)
	r.add("wrong", wrong)
	r.add("a user could not go on", people.stuck())
	r.measure(ctx, c, watcher, meter, people, trouble, proxy, on)
	if err := on.Stop(); err != nil {
		r.add("a role did not stop", []string{err.Error()})
	}
	if len(r.Findings) > 0 {
		r.Logs = map[string]string{}
		for _, name := range on.Names() {
			r.Logs[name] = on.Logs(name)
		}
	}
	return r, ctx.Err()
}

// awaitRest looks until everything is at rest, nothing changes any more, or it is
// enough, and returns what is not at rest.
func (c *checker) awaitRest(ctx context.Context, o Options, enough func() bool) (left []string) {
	calm, moved, said := time.Now(), time.Now(), time.Now()
	left = c.atRest(ctx)
	took := time.Since(calm)
	for len(left) > 0 && time.Since(moved) < o.Settle && time.Since(calm) < 3*o.Settle && ctx.Err() == nil && !enough() {
		if time.Since(said) > 15*time.Second {
			said = time.Now()
			o.say("after %v, %d things are not at rest:\n  %s", time.Since(calm).Round(time.Second), len(left), strings.Join(left[:min(5, len(left))], "\n  "))
		}
		load.Pause(ctx, max(time.Second, 3*took)) // looking must not be what keeps the storage busy
		before, began := left, time.Now()
		if left = c.atRest(ctx); !slices.Equal(before, left) {
			moved = time.Now()
		}
		took = time.Since(began)
	}
	return left
}

// backlog is how many videos may be in the making before the next one comes.
const backlog = 10

// liveAll does what the plan says, until the time is over, and returns with users
// still busy.
func liveAll(ctx context.Context, o Options, p plan, sources []*clip, people *users, trouble *chaos) *sync.WaitGroup {
	ctx2, stop := context.WithTimeout(ctx, o.Duration)
	defer stop()
	began := time.Now()
	wait := func(at time.Duration) bool {
		load.Pause(ctx2, time.Until(began.Add(at)))
		return ctx2.Err() == nil
	}
	lives, drivers := new(sync.WaitGroup), new(sync.WaitGroup)
	drivers.Go(func() {
		for _, l := range p.Lives {
			if !wait(l.At) {
				return
			}
			// On a slow machine users wait: a backlog would only lengthen the end.
			for ctx2.Err() == nil && trouble.watcher.unfinished() >= backlog {
				load.Pause(ctx2, watchEvery)
			}
			source := sources[slices.IndexFunc(sources, func(c *clip) bool { return c.name == l.Clip })]
			lives.Go(func() { people.live(ctx, l, source, o.Seed) })
		}
	})
	drivers.Go(func() {
		for n, e := range p.Events {
			if !wait(e.At) {
				return
			}
			trouble.do(ctx2, n, e)
		}
	})
	drivers.Go(func() {
		for _, b := range p.Bursts {
			if !wait(b.At) {
				return
			}
			trouble.proxy.Begin(b.Burst)
		}
	})
	drivers.Go(func() { people.look(ctx2) })
	for ctx2.Err() == nil {
		load.Pause(ctx2, 500*time.Millisecond)
		if o.FirstFinding && len(trouble.watcher.found()) > 0 {
			stop()
		}
	}
	drivers.Wait()
	return lives
}
