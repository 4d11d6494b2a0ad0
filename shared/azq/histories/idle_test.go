package histories_test

import (
	"context"
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

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
)

// fleet is some workers of the same queues, on the model, without anything to do.
type fleet struct {
	t     *testing.T
	world *world
	dead  []*atomic.Bool
	stop  []func()
	began chan start
	unfit atomic.Int64 // the number of a worker that cannot do items "picky…"

	mu    sync.Mutex
	asked map[azstore.RequestKind]int
}

// start is the beginning of a handler.
type start struct {
	item, worker string
	at           time.Time
}

// idle lets n workers run until the function returns. It begins when they have been idle for
// twenty minutes.
func idle(t *testing.T, n int, faults func(*http.Request) fault, then func(*fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{t: t, world: newWorld(plan{}), began: make(chan start, 100), asked: map[azstore.RequestKind]int{}}
		f.unfit.Store(-1)
		if err := azq.Open(f.world.account(&line{}), azq.Options{Queues: specs()}).Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() {
			for _, stop := range f.stop {
				stop()
			}
		}()
		for i := range n {
			f.run(fmt.Sprint("w", i), faults)
		}
		time.Sleep(20 * time.Minute)
		then(f)
		if len(f.world.service.problem) > 0 {
			t.Error(f.world.service.problem)
		}
	})
}

func (f *fleet) run(name string, faults func(*http.Request) fault) {
	dead := &atomic.Bool{}
	handler := azq.HandlerFunc(func(ctx context.Context, job *azq.RawJob) error {
		f.began <- start{job.Item.ID, name, time.Now()}
		if strings.HasPrefix(job.Item.ID, "fatal") && job.DequeueCount == 1 {
			dead.Store(true)
			<-ctx.Done()
		}
		if strings.HasPrefix(job.Item.ID, "picky") && name == fmt.Sprint("w", f.unfit.Load()) {
			return azq.Snooze(30*time.Second, "for a newer worker")
		}
		return nil
	})
	later := func(r *http.Request) fault {
		if faults == nil || f.world.now() < time.Minute { // while clients create what they need
			return none
		}
		return faults(r)
	}
	l := &line{fault: later, cut: dead.Load, asks: func(r *http.Request) {
		services := map[string]azstore.Service{"10000": azstore.Blobs, "10001": azstore.Queues, "10002": azstore.Tables}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.asked[azstore.Classify(services[r.URL.Port()], r)]++
	}}
	c := azq.Open(f.world.account(l), azq.Options{
		Queues: specs(), Handlers: map[string]azq.Handler{brief: handler, long: handler}, Pools: map[string]int{brief: 2, long: 2}, Worker: name,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if err := c.Run(ctx); err != nil {
			f.t.Error(err)
		}
	}()
	f.dead = append(f.dead, dead)
	f.stop = append(f.stop, func() { cancel(); <-gone })
}

// usd is what the requests of a while cost in a month of 730 hours, at Azure's list prices.
func (f *fleet) usd(during time.Duration) float64 {
	f.mu.Lock()
	clear(f.asked)
	f.mu.Unlock()
	time.Sleep(during)
	f.mu.Lock()
	defer f.mu.Unlock()
	usd := 0.0
	for kind, n := range f.asked {
		each := 0.0055e-3 // a write of a blob
		switch service, _, _ := strings.Cut(string(kind), "."); service {
		case "queue":
			each = 0.4e-6
		case "tables", "table":
			each = 0.036e-6
		}
		usd += float64(n) * each * float64(730*time.Hour) / float64(during)
	}
	f.t.Logf("%d workers: %v in %v, %.2f USD a month", len(f.dead), f.asked, during, usd)
	return usd
}

// send sends an item with a producer of its own, as another process would.
func (f *fleet) send(queue, id string, delay time.Duration) {
	f.t.Helper()
	step, _, _ := strings.Cut(queue, "-")
	item, err := azq.NewItem(step, "subject", id, nil)
	if err == nil {
		err = azq.Open(f.world.account(&line{}), azq.Options{Queues: specs()}).SendItem(context.Background(), queue, item, delay)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// sendSilently puts a message into a queue as other programs do, which ring no bell.
func (f *fleet) sendSilently(queue, id string) {
	f.t.Helper()
	step, _, _ := strings.Cut(queue, "-")
	item, err := azq.NewItem(step, "subject", id, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	text, err := item.JSON()
	if err == nil {
		_, err = f.world.account(&line{}).Queue(queue).EnqueueMessage(context.Background(), string(text), &azqueue.EnqueueMessageOptions{TimeToLive: new(int32(-1))})
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// taken waits until an item is taken up, and returns how long after since that was.
func (f *fleet) taken(id string, since time.Time) time.Duration {
	f.t.Helper()
	select {
	case s := <-f.began:
		if s.item != id {
			f.t.Errorf("%s was taken up, want %s", s.item, id)
		}
		return s.at.Sub(since)
	case <-time.After(2 * time.Hour):
		f.t.Fatalf("%s was not taken up; %v", id, f.world.poisoned())
	}
	return 0
}

// onWatch is the number of the worker that the row names.
func (f *fleet) onWatch() int {
	f.t.Helper()
	f.world.service.mu.Lock()
	defer f.world.service.mu.Unlock()
	for _, row := range f.world.service.tables[azq.DoorbellTable] {
		name, _ := row.values["Worker"].(string)
		name, _, _ = strings.Cut(name, " ")
		for i := range f.dead {
			if name == fmt.Sprint("w", i) {
				return i
			}
		}
	}
	f.t.Fatal("no worker is on watch")
	return 0
}

func p95(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)*95/100]
}

// takeUp sends an item after a while without any, again and again, and returns the 95th
// percentile of how long it took until a handler began.
func (f *fleet) takeUp(idleFor time.Duration) time.Duration {
	f.t.Helper()
	var all []time.Duration
	for i := range 20 {
		time.Sleep(idleFor + time.Duration(i*137)*time.Millisecond)
		since := time.Now()
		f.send(queueNames[i%len(queueNames)], fmt.Sprint("item", i), 0)
		all = append(all, f.taken(fmt.Sprint("item", i), since))
	}
	worst := p95(all)
	f.t.Logf("%d workers, idle for %v: taken up after %v (p50), %v (p95), %v at most", len(f.dead), idleFor, all[len(all)/2], worst, all[len(all)-1])
	return worst
}

// An idle deployment asks little, however many its workers are, and takes up what comes
// within a second, however long nothing came.
func TestIdleWorkersAskLittleAndAreSoonAwake(t *testing.T) {
	t.Parallel()
	for workers, most := range map[int]float64{1: 1.6, 2: 1.6, 20: 1.85} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			t.Parallel()
			idle(t, workers, nil, func(f *fleet) {
				if usd := f.usd(10 * time.Minute); usd > most {
					t.Errorf("%d idle workers cost %.2f USD a month, want at most %.2f", workers, usd, most)
				}
				if d := f.takeUp(3 * time.Minute); d > time.Second {
					t.Errorf("an item is taken up after %v (p95), want at most 1 s", d)
				}
			})
		})
	}
}

// What is sent without a ring is found within a round of the watch, delayed messages soon
// after they are due, and the message of a killed worker when its visibility ends.
func TestTheWatchFindsWhatDoesNotRing(t *testing.T) {
	t.Parallel()
	idle(t, 3, nil, func(f *fleet) {
		for i := range 10 {
			time.Sleep(3*time.Minute + time.Duration(i*137)*time.Millisecond)
			id, since := fmt.Sprint("silent", i), time.Now()
			f.sendSilently(queueNames[i%len(queueNames)], id)
			if d := f.taken(id, since); d > 6*time.Second {
				t.Errorf("a message without a ring was taken up after %v, want at most a round of five queues", d)
			}
		}
		for _, delay := range []time.Duration{3 * time.Second, 20 * time.Second, 90 * time.Second, time.Hour} {
			time.Sleep(5 * time.Minute)
			id, due := fmt.Sprint("later", delay), time.Now().Add(delay)
			f.send(queueNames[2], id, delay)
			if d := f.taken(id, due); d < 0 || d > 2500*time.Millisecond {
				t.Errorf("an item of %v later was taken up %v after that", delay, d)
			}
		}
		time.Sleep(5 * time.Minute)
		since := time.Now()
		f.send(long, "fatal", 0)
		f.taken("fatal", since) // its worker, which is on watch, dies
		if d := f.taken("fatal", since); d > 10*time.Second+25*time.Second {
			t.Errorf("the message of a killed worker, visible after 10 s, was taken up after %v", d)
		}
	})
}

// A worker on watch that is killed, or stands still, is replaced. Meanwhile what rings waits
// for the next look of another worker, and what does not ring for the new watch.
func TestADeadWatchIsReplaced(t *testing.T) {
	t.Parallel()
	for _, rings := range []bool{true, false} {
		t.Run(fmt.Sprint("rings ", rings), func(t *testing.T) {
			t.Parallel()
			idle(t, 3, nil, func(f *fleet) {
				first, killed := f.onWatch(), time.Now()
				f.dead[first].Store(true)
				most := 30 * time.Second
				if rings {
					f.send(long, "x", 0)
					most = 13 * time.Second
				} else {
					f.sendSilently(long, "x")
				}
				if d := f.taken("x", killed); d > most {
					t.Errorf("the item was taken up %v after the worker on watch was killed, want at most %v", d, most)
				}
				time.Sleep(time.Minute)
				second := f.onWatch()
				if d := f.takeUp(2 * time.Minute); second == first || d > time.Second {
					t.Errorf("w%d is on watch after w%d, and an item is taken up after %v (p95)", second, first, d)
				}
				f.dead[first].Store(false) // it only stood still
				time.Sleep(time.Minute)
				if third, usd := f.onWatch(), f.usd(10*time.Minute); third != second || usd > 1.7 {
					t.Errorf("with the first back w%d is on watch, and they cost %.2f USD", third, usd)
				}
			})
		})
	}
}

// Nothing waits for ever because doorbells cannot be read or written, or replies are lost.
func TestTheWatchNeedsNoDoorbells(t *testing.T) {
	t.Parallel()
	ofTables := func(r *http.Request) bool { return r.URL.Port() == "10002" }
	var n atomic.Int64
	for name, c := range map[string]struct {
		fault func(*http.Request) fault
		most  time.Duration // until an item is taken up
	}{
		"cannot be read": {func(r *http.Request) fault {
			if ofTables(r) && r.Method == http.MethodGet {
				return busy
			}
			return none
		}, 7 * time.Second},
		"cannot be written": {func(r *http.Request) fault {
			if ofTables(r) && r.Method != http.MethodGet {
				return busy
			}
			return none
		}, time.Second},
		"every other reply is lost": {func(r *http.Request) fault {
			if ofTables(r) && n.Add(1)%2 == 0 {
				return lostReply
			}
			return none
		}, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			idle(t, 3, c.fault, func(f *fleet) {
				if d := f.takeUp(2 * time.Minute); d > c.most {
					t.Errorf("an item is taken up after %v (p95), want at most %v", d, c.most)
				}
			})
		})
	}
}

// What the worker on watch cannot do comes to another one, too: it does not keep the queue to
// itself because it alone is awake (paper row Q6).
func TestWhatIsPutBackComesToOthers(t *testing.T) {
	t.Parallel()
	idle(t, 3, nil, func(f *fleet) {
		for i := range 10 {
			f.unfit.Store(int64(f.onWatch()))
			id, since := fmt.Sprint("picky", i), time.Now()
			f.send(queueNames[i%len(queueNames)], id, 0)
			deadline := time.After(10 * time.Minute)
			for tries := 0; ; tries++ {
				select {
				case s := <-f.began:
					if s.worker == fmt.Sprint("w", f.unfit.Load()) {
						continue
					}
					f.t.Logf("%s was done after %v, at its %d. delivery", id, s.at.Sub(since), tries+1)
				case <-deadline:
					t.Fatalf("%s came %d times to the worker that cannot do it, and to no other", id, tries)
				}
				break
			}
			time.Sleep(5 * time.Minute)
		}
	})
}
