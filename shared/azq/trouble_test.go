package azq_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

const source = "source" // a dependency of the handlers own

// told is an error that says its dependency.
type told string

func (e told) Error() string      { return "trouble with " + string(e) }
func (e told) Dependency() string { return string(e) }

// quick shortens the clocks of trouble.
func quick(o *azq.Options) {
	o.DependencyPause, o.MaxDependencyPause = 20*time.Millisecond, 200*time.Millisecond
}

// probing gives a consumer one probe.
func probing(dependency string, probe func(context.Context) error) func(*azq.Options) {
	return func(o *azq.Options) { o.Probes = map[string]func(context.Context) error{dependency: probe} }
}

func breakerOf(c azqtest.Worker, dependency string) azq.BreakerStats {
	for _, b := range c.Stats().Breakers {
		if b.Dependency == dependency {
			return b
		}
	}
	return azq.BreakerStats{}
}

func wantNoPoison(t *testing.T, qs *azq.Client) {
	t.Helper()
	if list, _, err := qs.ListPoison(t.Context(), 10, ""); err != nil || len(list) > 0 {
		t.Errorf("poison: %+v, %v", list, err)
	}
}

// Trouble opens the breaker, the worker stops receiving, the probe finds that
// the trouble is over, and it cost the items nothing.
func TestTroubleStopsReceivingAndCostsNothing(t *testing.T) {
	t.Parallel()
	qs := azqtest.Open(t, azuritetest.Account(t), oneQueue(30*time.Second))
	var full atomic.Bool
	full.Store(true)
	disk := func(context.Context) error {
		if full.Load() {
			return fmt.Errorf("probe: %w", syscall.ENOSPC)
		}
		return nil
	}
	h := azqtest.Recorder{Next: func(_ context.Context, job *azq.RawJob) error {
		if err := disk(context.Background()); err != nil {
			return fmt.Errorf("write a segment: %w", err)
		}
		if job.Attempt() != 1 || job.Item.LastError != "" || job.Item.History != "" {
			return fmt.Errorf("trouble was recorded: %+v", job.Item)
		}
		return nil
	}}
	c, _ := run(t, qs, &h, quick, probing(azq.Disk, disk))
	send(t, qs, jobs, ids("i", 12)...)
	eventually(t, func() error {
		if b := breakerOf(c, azq.Disk); b.State != azq.BreakerOpen || b.Since.IsZero() || !strings.Contains(b.Reason, "no space") {
			return fmt.Errorf("breaker %+v", b)
		}
		return nil
	})
	if err := c.Ready(); err == nil || !strings.HasPrefix(err.Error(), "trouble with "+azq.Disk+" since") {
		t.Errorf("ready: %v", err)
	}
	// Nothing more is received, however long it lasts.
	settled := func() error {
		if len(c.Stats().Running) > 0 {
			return errors.New("items are in progress")
		}
		return nil
	}
	eventually(t, settled)
	before := azqtest.Counts(c.Stats(), jobs)
	eventually(t, func() error { // items are visible again
		seen, err := qs.Queue(jobs).Peek(t.Context(), 32)
		if err == nil && len(seen) < 12 {
			err = fmt.Errorf("%d of 12 are visible", len(seen))
		}
		return err
	})
	if s := azqtest.Counts(c.Stats(), jobs); s.Received != before.Received || s.Received > 8 || s.Troubled != s.Received {
		t.Errorf("an open breaker receives: %+v, then %+v", before, s)
	}
	full.Store(false)
	azqtest.WaitEmpty(t, qs.Queue(jobs))
	c.WaitCounts(t, jobs, func(s azq.QueueStats) bool { return s.Completed == 12 && s.Failed == 0 })
	if b := breakerOf(c, azq.Disk); b.State != azq.BreakerClosed || b.Reason != "" || c.Ready() != nil {
		t.Errorf("breaker %+v", b)
	}
	wantNoPoison(t, qs)
}

// Three troubles in a row open the breaker, and what is done in between ends a row.
func TestThirdTroubleInARowOpensTheBreaker(t *testing.T) {
	t.Parallel()
	for _, opensAfter := range []int{3, 4} {
		opensInARow(t, opensAfter)
	}
}

// opensInARow has a worker meet the same trouble in all items but the third.
func opensInARow(t *testing.T, opensAfter int) {
	t.Helper()
	qs := azqtest.Open(t, azuritetest.Account(t), oneQueue(30*time.Second))
	full := func(context.Context) error { return syscall.ENOSPC }
	var tries atomic.Int64
	third := make(chan struct{})
	h := azqtest.Recorder{Next: func(ctx context.Context, _ *azq.RawJob) error {
		switch tries.Add(1) {
		case 3:
			return nil
		case 4:
			<-third // a slot is given back before its item is settled
		}
		return full(ctx)
	}}
	c, _ := run(t, qs, &h, quick, probing(azq.Disk, full), func(o *azq.Options) {
		o.OpensAfter, o.Pools = opensAfter, map[string]int{light: 1}
	})
	send(t, qs, jobs, ids("i", 9)...)
	c.WaitCounts(t, jobs, func(s azq.QueueStats) bool { return s.Completed == 1 })
	close(third)
	last := int64(3 + opensAfter)
	eventually(t, func() error {
		b := breakerOf(c, azq.Disk)
		n := tries.Load() // after it: an open breaker has seen no more; one item may have been received by then
		if n > last+1 || n < last && b.State == azq.BreakerOpen {
			t.Fatalf("after %d tries, of which the third was well, the breaker is %s; want it open after try %d", n, b.State, last)
		}
		if b.State != azq.BreakerOpen {
			return fmt.Errorf("%d tries", n)
		}
		return nil
	})
}

// A dependency without a probe is tried with one item at a time.
func TestHalfOpenReceivesOneItem(t *testing.T) {
	t.Parallel()
	qs := azqtest.Open(t, azuritetest.Account(t), oneQueue(30*time.Second))
	var away atomic.Bool
	away.Store(true)
	var running, most atomic.Int64
	h := azqtest.Recorder{Next: func(context.Context, *azq.RawJob) error {
		n := running.Add(1)
		defer running.Add(-1)
		if !away.Load() {
			return nil
		}
		time.Sleep(30 * time.Millisecond)
		most.Store(max(most.Load(), n))
		return told(source)
	}}
	c, _ := run(t, qs, &h, quick)
	send(t, qs, jobs, ids("i", 12)...)
	eventually(t, func() error {
		if b := breakerOf(c, source); b.State == azq.BreakerClosed || b.State == "" || len(c.Stats().Running) > 0 {
			return fmt.Errorf("breaker %+v", b)
		}
		return nil
	})
	most.Store(0)
	tries := breakerOf(c, source).Failures
	eventually(t, func() error {
		if b := breakerOf(c, source); b.Failures < tries+4 {
			return fmt.Errorf("breaker %+v", b)
		}
		return nil
	})
	if n := most.Load(); n != 1 {
		t.Errorf("%d items at once while half-open", n)
	}
	away.Store(false)
	azqtest.WaitEmpty(t, qs.Queue(jobs))
	c.WaitCounts(t, jobs, func(s azq.QueueStats) bool { return s.Completed == 12 && s.Failed == 0 })
	wantNoPoison(t, qs)
}

// A sick worker beside a healthy one: it stops, the healthy one does the work.
func TestHealthyWorkerFinishesWhatASickOneGivesBack(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	qs, others := azqtest.Open(t, a, oneQueue(30*time.Second)), azqtest.Open(t, a, oneQueue(30*time.Second))
	full := fmt.Errorf("write: %w", syscall.ENOSPC)
	sick, _ := run(t, qs, &azqtest.Recorder{Next: func(context.Context, *azq.RawJob) error { return full }}, quick,
		probing(azq.Disk, func(context.Context) error { return full }))
	send(t, qs, jobs, ids("i", 20)...)
	eventually(t, func() error { return notYet(sick.Ready() != nil) })
	var well azqtest.Recorder
	c, _ := run(t, others, &well)
	azqtest.WaitEmpty(t, qs.Queue(jobs))
	c.WaitCounts(t, jobs, func(s azq.QueueStats) bool { return s.Completed == 20 })
	if s := azqtest.Counts(sick.Stats(), jobs); s.Failed != 0 || s.Troubled > 8 || sick.Ready() == nil {
		t.Errorf("the sick worker: %+v, ready %v", s, sick.Ready())
	}
	wantNoPoison(t, qs)
}

func notYet(ok bool) error {
	if ok {
		return nil
	}
	return errors.New("not yet")
}

// An hour of a service that fails, with short clocks: longer than five failed
// attempts would last. Every item is done and none is poison.
func TestOutageOfEachServiceBuriesNothing(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	faults := map[string]inject.Fault{
		"busy": inject.ServerBusy, "reset": inject.Reset, "silence": inject.Silence, "forbidden": inject.Forbidden,
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			good := azuritetest.Account(t)
			if err := good.Ensure(t.Context(), azstore.Names{Containers: []string{"media"}}); err != nil {
				t.Fatal(err)
			}
			var away atomic.Bool
			transport := &inject.Transport{Choose: func(r *http.Request) inject.Fault {
				if away.Load() && strings.Contains(r.URL.Path, "media") {
					return fault
				}
				return inject.None
			}}
			bad := azuritetest.AccountWith(t, func(c *azstore.Config) {
				c.Prefix, c.Transport = good.Prefix(), transport
				c.Retry = azstore.Retry{Strategy: azstore.NoRetry, TryTimeout: time.Second}
			})
			// Only the worker has the short patience: on a busy machine the emulator needs more to make a queue.
			patient, blobs := azqtest.Open(t, good, oneQueue(5*time.Second)), blobstore.New(bad)
			qs := azq.Open(bad, azq.Options{Queues: []azq.Spec{oneQueue(5 * time.Second)}})
			write := func(ctx context.Context, name string) error {
				_, err := blobs.Put(ctx, "media", name, []byte("x"), blobstore.Options{})
				return err
			}
			away.Store(true)
			h := azqtest.Recorder{Next: func(ctx context.Context, job *azq.RawJob) error {
				if job.Item.Failures > 0 {
					t.Errorf("a failure was recorded: %s", job.Item.History)
				}
				return write(ctx, job.Item.ID)
			}}
			c, _ := run(t, qs, &h, quick, probing(string(azstore.Blobs), func(ctx context.Context) error { return write(ctx, "probe") }))
			send(t, patient, jobs, ids("i", 8)...)
			eventually(t, func() error {
				return notYet(breakerOf(c, "blob").State == azq.BreakerOpen && transport.Fired() > 8)
			})
			away.Store(false)
			azqtest.WaitEmpty(t, patient.Queue(jobs))
			c.WaitCounts(t, jobs, func(s azq.QueueStats) bool { return s.Completed == 8 && s.Failed == 0 && s.Troubled >= 3 })
			wantNoPoison(t, patient)
		})
	}
}

// The queue service is away: the worker says so, and goes on when it is back.
func TestQueueOutageOpensTheBreaker(t *testing.T) {
	t.Parallel()
	good := azuritetest.Account(t)
	var away atomic.Bool
	faults := &inject.Transport{Choose: func(*http.Request) inject.Fault {
		if away.Load() {
			return inject.Reset
		}
		return inject.None
	}}
	bad := azuritetest.AccountWith(t, func(c *azstore.Config) {
		c.Prefix, c.Transport, c.Retry = good.Prefix(), faults, azstore.Retry{Strategy: azstore.NoRetry}
	})
	healthy, qs := azqtest.Open(t, good, oneQueue(30*time.Second)), azqtest.Open(t, bad, oneQueue(30*time.Second))
	var h azqtest.Recorder
	c, _ := run(t, qs, &h, quick, probing(string(azstore.Queues), func(ctx context.Context) error {
		_, err := qs.Queue(jobs).Length(ctx)
		return err
	}))
	c.WaitCounts(t, jobs, func(s azq.QueueStats) bool { return s.EmptyPolls > 0 })
	away.Store(true)
	eventually(t, func() error { return notYet(c.Ready() != nil) })
	send(t, healthy, jobs, "x")
	away.Store(false)
	azqtest.WaitEmpty(t, healthy.Queue(jobs))
	if err := c.Ready(); err != nil {
		t.Error(err)
	}
}

// What hangs in a call of storage, or hangs while a dependency is in trouble, is
// no failure of the item.
func TestStallDuringTroubleCostsNothing(t *testing.T) {
	t.Parallel()
	qs := azqtest.Open(t, azuritetest.Account(t), oneQueue(2*time.Second))
	var away atomic.Bool
	away.Store(true)
	h := azqtest.Recorder{Next: func(ctx context.Context, job *azq.RawJob) error {
		if job.Attempt() > 1 {
			t.Errorf("a failure was recorded: %s", job.Item.History)
		}
		if !away.Load() {
			return nil
		}
		<-ctx.Done()
		away.Store(false)
		return context.Cause(ctx)
	}}
	down := errors.New("no answer")
	var asked atomic.Int64
	c, _ := run(t, qs, &h, quick, func(o *azq.Options) { o.StallAfter = 500 * time.Millisecond },
		probing("table", func(context.Context) error {
			if asked.Add(1) == 1 {
				return down
			}
			return nil
		}))
	send(t, qs, jobs, "x")
	azqtest.WaitEmpty(t, qs.Queue(jobs))
	c.WaitCounts(t, jobs, func(s azq.QueueStats) bool {
		return s.Stalled == 1 && s.Troubled == 1 && s.Failed == 0 && s.Completed == 1
	})
}

// Children that are killed cost nothing, but not for ever.
func TestEightKillsArePoison(t *testing.T) {
	t.Parallel()
	for name, kills := range map[string]int{"seven": 7, "always": 100} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			qs := azqtest.Open(t, azuritetest.Account(t), oneQueue(30*time.Second))
			h := &greedy{exhausted{fail: told(azq.Killed)}, kills}
			c, _ := run(t, qs, h, quick, func(o *azq.Options) {
				o.FirstRetry, o.MaxRetry = time.Millisecond, time.Millisecond
				o.MaxUnexplained = 3 // kills are explained
			})
			send(t, qs, jobs, "x")
			want := 0
			if kills > 8 {
				want = 1
			}
			azqtest.WaitEmpty(t, qs.Queue(jobs))
			list := poisoned(t, qs, want)
			if n := len(h.IDs()); n != min(kills, 8) {
				t.Errorf("killed %d times", n)
			}
			if want == 1 && (!strings.Contains(list[0].Reason, "killed 8 times, from outside") || list[0].Failures != 1 || len(h.ended) != 1) {
				t.Errorf("poisoned %+v, told %v", list[0], h.ended)
			}
			if s := azqtest.Counts(c.Stats(), jobs); s.CrashLoops != 0 {
				t.Errorf("counters %+v", s)
			}
		})
	}
}

// greedy is a handler whose children are killed so many times.
type greedy struct {
	exhausted
	kills int
}

func (g *greedy) Handle(ctx context.Context, job *azq.RawJob) error {
	if job.Item.Kills >= g.kills {
		return nil
	}
	return g.exhausted.Handle(ctx, job)
}

// Stats answers while a renewal gets no answer.
func TestStatsDoNotWaitForARenewal(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	good := azuritetest.Account(t)
	renewing := make(chan struct{}, 100)
	faults := &inject.Transport{Choose: func(r *http.Request) inject.Fault {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/messages/") {
			renewing <- struct{}{}
			return inject.Silence
		}
		return inject.None
	}}
	bad := azuritetest.AccountWith(t, func(c *azstore.Config) { c.Prefix, c.Transport = good.Prefix(), faults })
	qs := azqtest.Open(t, bad, oneQueue(12*time.Second))
	begun, done := make(chan struct{}, 2), make(chan struct{})
	c, _ := run(t, qs, azq.HandlerFunc(func(context.Context, *azq.RawJob) error {
		begun <- struct{}{}
		<-done
		return nil
	}))
	t.Cleanup(func() { close(done) })
	send(t, qs, jobs, "x")
	<-begun
	<-renewing // it holds the lease's lock for 2 s
	start := time.Now()
	running := c.Stats().Running
	if took := time.Since(start); took > azuritetest.Patience(500*time.Millisecond) || len(running) != 1 || running[0].Deadline.Before(start) {
		t.Errorf("stats %+v after %v", running, took)
	}
	send(t, qs, jobs, "y")
	select {
	case <-begun:
	case <-time.After(azuritetest.Patience(time.Second)):
		t.Error("a new item waits for another one's renewal")
	}
}

// A worker that starts while storage is away begins when storage is back.
func TestRunBeginsWhenStorageIsBack(t *testing.T) {
	t.Parallel()
	same := azuritetest.Account(t)
	var refused atomic.Int32
	var back atomic.Bool
	away := &inject.Transport{Choose: func(*http.Request) inject.Fault {
		if back.Load() {
			return inject.None
		}
		refused.Add(1)
		return inject.Reset
	}}
	a := azuritetest.AccountWith(t, func(c *azstore.Config) {
		c.Prefix, c.Transport, c.Retry = same.Prefix(), away, azstore.Retry{Strategy: azstore.NoRetry}
	})
	done := make(chan string, 1)
	client := azq.Open(a, azq.Options{Log: quiet, Handlers: map[string]azq.Handler{"letter": azq.HandlerFunc(func(_ context.Context, job *azq.RawJob) error {
		done <- job.Item.ID
		return nil
	})}})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	azuritetest.Eventually(t, 20*time.Second, func() error {
		if refused.Load() < 3 {
			return errors.New("it has hardly asked")
		}
		return nil
	})
	back.Store(true)
	producer := azqtest.Open(t, same, azq.Spec{Name: "default"})
	item, err := azq.NewItem("letter", "", "welcome", nil)
	if err != nil {
		t.Fatal(err)
	}
	azqtest.Send(t, producer, "default", item)
	select {
	case <-done:
	case err := <-ended:
		t.Fatalf("Run ended: %v", err)
	case <-time.After(40 * time.Second):
		t.Fatal("the item is not worked on")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
