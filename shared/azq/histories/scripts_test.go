package histories_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
)

// script runs one consumer on the model until the function returns, with pauses of seconds.
func script(t *testing.T, l *line, handlers map[string]azq.Handler, change func(*azq.Options), then func(queues, c *azq.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(plan{})
		queues := azq.Open(w.account(&line{}), azq.Options{Queues: specs()})
		if err := queues.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		options := azq.Options{
			Handlers: handlers, Pools: map[string]int{brief: 2, long: 2}, Worker: "w", FirstRetry: time.Second, MaxRetry: time.Second,
			DependencyPause: time.Second, MaxDependencyPause: 5 * time.Second, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		}
		change(&options)
		options.Queues = specs()
		c := azq.Open(w.account(l), options)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			if err := c.Run(ctx); err != nil {
				t.Error(err)
			}
		}()
		then(queues, c)
		cancel()
		<-gone
		time.Sleep(2 * time.Hour) // until hooks that hang have ended
	})
}

func sendOne(t *testing.T, queues *azq.Client, queue, id string) {
	t.Helper()
	step, _, _ := strings.Cut(queue, "-") // a lane has its queue's step
	item, err := azq.NewItem(step, "subject", id, nil)
	if err == nil {
		err = queues.SendItem(context.Background(), queue, item, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func noWork(context.Context, *azq.RawJob) error { return nil }

// A message whose deliveries were lost on their way, which no handler has seen, is no item
// that kills its workers, however often that happens (H12).
func TestLostRepliesAreNoCrashLoop(t *testing.T) {
	t.Parallel()
	var lose atomic.Int32
	lose.Store(60)
	l := &line{fault: func(r *http.Request) fault {
		receive := r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, brief+"/messages") && r.URL.Query().Get("peekonly") == ""
		if receive && lose.Add(-1) >= 0 {
			return lostReply
		}
		return none
	}}
	handlers := map[string]azq.Handler{brief: azq.HandlerFunc(noWork), long: azq.HandlerFunc(noWork)}
	script(t, l, handlers, func(*azq.Options) {}, func(queues, c *azq.Client) {
		sendOne(t, queues, brief, "item")
		time.Sleep(20 * time.Minute)
		if s := azqtest.Counts(c.Stats(), brief); s.Completed != 1 || s.CrashLoops != 0 || lose.Load() > 0 {
			t.Errorf("%d replies were not lost, counters are %+v", lose.Load(), s)
		}
	})
}

// Two lanes that have work get the same time of the slots, whatever their items take (paper
// row Q5).
func TestLanesGetTheSameTime(t *testing.T) {
	t.Parallel()
	const longest, typical = 3 * time.Second, time.Second
	rapid.Check(t, func(rt *rapid.T) {
		slots := rapid.IntRange(1, 4).Draw(rt, "slots")
		each := rapid.IntRange(4, 20).Draw(rt, "items of each lane")
		takes := rapid.SliceOfN(within(longest), 2*each, 2*each).Draw(rt, "takes")
		var mu sync.Mutex
		other := azq.LaneName(long, 2)
		begun, given, worst := map[string]int{}, map[string]time.Duration{}, time.Duration(0)
		handlers := map[string]azq.Handler{
			brief: azq.HandlerFunc(noWork),
			long: azq.HandlerFunc(func(_ context.Context, job *azq.RawJob) error {
				mu.Lock()
				if max(begun[long], begun[other]) < each {
					worst = max(worst, (given[long] - given[other]).Abs())
				}
				take := takes[(begun[long]+begun[other])%len(takes)]
				begun[job.Queue]++
				given[job.Queue] += take
				mu.Unlock()
				time.Sleep(take)
				return nil
			}),
		}
		change := func(o *azq.Options) { o.Pools[long] = slots }
		script(t, &line{}, handlers, change, func(queues, c *azq.Client) {
			if err := queues.Queue(long).Pause(context.Background()); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute)
			for range each {
				sendOne(t, queues, long, "item")
				sendOne(t, queues, other, "item")
			}
			if err := queues.Queue(long).Resume(context.Background()); err != nil {
				t.Error(err)
			}
			time.Sleep(10 * time.Minute)
		})
		if begun[long] != each || worst > time.Duration(slots+2)*(longest+typical) {
			rt.Fatalf("of %d slots one lane was ahead by %v; begun %v", slots, worst, begun)
		}
	})
}

// An item that kills each worker is poison before it kills for ever; one kill less, and it is
// done. Whether a worker died of the item or of something else cannot be told.
func TestItemsThatKillTheirWorkers(t *testing.T) {
	t.Parallel()
	for kills, poison := range map[int]int{maxUnexplained - 1: 0, maxUnexplained: 1, maxUnexplained + 5: 1} {
		t.Run(fmt.Sprint(kills, " kills"), func(t *testing.T) {
			t.Parallel()
			p := plan{
				Items:   []item{{ID: "item", Queue: brief, Shape: ours, About: "subject", Script: slices.Repeat([]outcome{dies}, kills)}},
				Workers: []life{{End: chaos}},
			}
			var w *world
			synctest.Test(t, func(t *testing.T) { w = play(t, p) })
			if n := w.poison; n != poison || len(w.wrong) > 0 || poison == 1 && w.attempts["item"] != maxUnexplained {
				t.Errorf("%d are poison after %d attempts, want %d; %q\n%s", n, w.attempts["item"], poison, w.wrong, strings.Join(w.log, "\n"))
			}
		})
	}
}

// Trouble with a dependency that has no probe holds up the steps that met it, also while one
// item tries for half a minute whether it is over (H11).
func TestTroubleHoldsUpItsOwnSteps(t *testing.T) {
	t.Parallel()
	var begun, away atomic.Int32
	away.Store(3)
	handlers := map[string]azq.Handler{
		brief: azq.HandlerFunc(func(context.Context, *azq.RawJob) error { begun.Add(1); return nil }),
		long: azq.HandlerFunc(func(context.Context, *azq.RawJob) error {
			if away.Add(-1) >= 0 {
				return sourceTrouble{}
			}
			time.Sleep(30 * time.Second)
			return nil
		}),
	}
	script(t, &line{}, handlers, func(*azq.Options) {}, func(queues, c *azq.Client) {
		for _, id := range []string{"a", "b", "c", "d"} {
			sendOne(t, queues, long, id)
		}
		for n := int32(1); n <= 60; n++ {
			sendOne(t, queues, brief, "item")
			time.Sleep(5 * time.Second) // two looks at an empty queue
			if begun.Load() < n {
				t.Fatalf("an item of another step waits: breakers are %+v", c.Stats().Breakers)
			}
		}
		if s := azqtest.Counts(c.Stats(), long); s.Completed != 4 || s.Troubled < 3 {
			t.Errorf("counters are %+v", s)
		}
	})
}

// hanging is a handler whose hook does not return for an hour.
type hanging struct{ azq.HandlerFunc }

// Exhausted implements azq.Exhausted.
func (hanging) Exhausted(context.Context, *azq.RawJob, error) error {
	time.Sleep(time.Hour)
	return nil
}

// A hook that hangs is given up, and its slot works on other items (H6). So is a probe.
func TestHooksThatHang(t *testing.T) {
	t.Parallel()
	handlers := map[string]azq.Handler{
		brief: hanging{func(_ context.Context, job *azq.RawJob) error {
			if job.Item.ID == "bad" {
				return azq.Permanent(errors.New("no"))
			}
			return nil
		}},
		long: azq.HandlerFunc(func(_ context.Context, job *azq.RawJob) error {
			if job.Attempt() == 1 && job.Item.Releases < 3 {
				return sourceTrouble{}
			}
			return nil
		}),
	}
	var probes atomic.Int32
	change := func(o *azq.Options) {
		o.Probes = map[string]func(context.Context) error{source: func(context.Context) error {
			if probes.Add(1) == 1 {
				time.Sleep(time.Hour)
			}
			return nil
		}}
	}
	script(t, &line{}, handlers, change, func(queues, c *azq.Client) {
		sendOne(t, queues, brief, "bad")
		sendOne(t, queues, brief, "bad")
		time.Sleep(time.Minute)
		for range 10 {
			sendOne(t, queues, brief, "good")
		}
		for range 3 {
			sendOne(t, queues, long, "item")
		}
		time.Sleep(10 * time.Minute)
		if s := azqtest.Counts(c.Stats(), brief); s.Completed != 10 || s.HooksHung < 4 {
			t.Errorf("counters are %+v", s)
		}
		if s := azqtest.Counts(c.Stats(), long); s.Completed != 3 || probes.Load() < 2 {
			t.Errorf("after %d probes the counters are %+v", probes.Load(), s)
		}
	})
}
