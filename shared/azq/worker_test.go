package azq_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

const (
	jobs = "jobs" // a queue
	step = "work"

	light, heavy             = "light", "heavy"                 // pools
	first, high, normal, low = "first", "high", "normal", "low" // queues
)

func oneQueue(visibility time.Duration) azq.Spec {
	return azq.Spec{Name: jobs, Kinds: []string{step}, Pool: light, Visibility: visibility, MaxIdlePoll: 200 * time.Millisecond}
}

// run starts a worker whose only handler is h, and returns it with its drain.
func run(t testing.TB, qs *azq.Client, h azq.Handler, change ...func(*azq.Options)) (azqtest.Worker, func()) {
	t.Helper()
	w := azqtest.Start(t, qs, map[string]azq.Handler{step: h}, change...)
	return w, w.Drain
}

func newItem(t testing.TB, id string) azq.Item {
	t.Helper()
	item, err := azq.NewItem(step, "subject", id, nil)
	if err != nil {
		t.Fatal(err)
	}
	return item
}

func send(t testing.TB, qs *azq.Client, queue string, ids ...string) {
	t.Helper()
	for _, id := range ids {
		azqtest.Send(t, qs, queue, newItem(t, id))
	}
}

func ids(prefix string, n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprint(prefix, i))
	}
	return list
}

func eventually(t testing.TB, check func() error) {
	t.Helper()
	azuritetest.Eventually(t, 20*time.Second, check)
}

func TestEveryItemIsDoneOnceAndDeleted(t *testing.T) {
	t.Parallel()
	qs := azqtest.Open(t, azuritetest.Account(t), oneQueue(30*time.Second))
	var h azqtest.Recorder
	c, drain := run(t, qs, &h)
	want := ids("i", 40)
	send(t, qs, jobs, want...)
	azqtest.WaitEmpty(t, qs.Queue(jobs))
	drain()
	got := h.IDs()
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("handled (-want +got):\n%s", diff)
	}
	if s := azqtest.Counts(c.Stats(), jobs); s.Completed != 40 || s.Received != 40 || s.Failed+s.StaleDeletes+s.SettleErrors != 0 {
		t.Errorf("counters: %+v", s)
	}
}

// Nothing is fetched ahead: what this worker cannot begin stays visible to others.
func TestOnlyFreeSlotsReceive(t *testing.T) {
	t.Parallel()
	qs := azqtest.Open(t, azuritetest.Account(t), oneQueue(30*time.Second))
	send(t, qs, jobs, ids("i", 6)...)
	release := make(chan struct{})
	h := azqtest.Recorder{Next: func(context.Context, *azq.RawJob) error { <-release; return nil }}
	c, _ := run(t, qs, &h, func(o *azq.Options) { o.Pools = map[string]int{light: 2} })
	eventually(t, func() error {
		if n := len(h.IDs()); n != 2 {
			return fmt.Errorf("%d handlers run, want 2", n)
		}
		return nil
	})
	if seen, err := qs.Queue(jobs).Peek(t.Context(), 32); err != nil || len(seen) != 4 {
		t.Errorf("%d messages are visible, %v; want 4", len(seen), err)
	}
	running := c.Stats().Running
	if len(running) != 2 || running[0].Queue != jobs || running[0].Kind != step || running[0].Deadline.Before(time.Now()) || running[0].Attempt != 1 ||
		running[0].DequeueCount != 1 || running[0].Visibility != 30*time.Second || time.Since(running[0].Inserted) > time.Minute {
		t.Errorf("running: %+v", running)
	}
	close(release)
	azqtest.WaitEmpty(t, qs.Queue(jobs))
}

func encodeQueues() []azq.Spec {
	spec := func(name string, weight int) azq.Spec {
		return azq.Spec{Name: name, Kinds: []string{step}, Pool: heavy, Laned: true, Weight: weight, Typical: 20 * time.Millisecond, MaxIdlePoll: 200 * time.Millisecond}
	}
	specs := []azq.Spec{spec(first, 8), spec(high, 6), spec(normal, 3), spec(low, 1)}
	specs[0].Urgent = true
	return specs
}

func heavySlots(slots int) func(*azq.Options) {
	return func(o *azq.Options) { o.Pools = map[string]int{heavy: slots} }
}

func count(list []string, prefix string) (n int) {
	for _, s := range list {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}

// Q5: with one slot the queues share it by weight, so low work is not starved. How exactly,
// says TestWeightsShareAOneSlotPool: here the time of a busy machine counts, too.
func TestOneSlotIsSharedByWeight(t *testing.T) {
	t.Parallel()
	qs := azqtest.Open(t, azuritetest.Account(t), encodeQueues()...)
	send(t, qs, high, ids("high", 40)...)
	send(t, qs, normal, ids("normal", 20)...)
	send(t, qs, low, ids("low", 10)...)
	// Work must last longer than a poll: a queue of which no message is known has no turn.
	h := azqtest.Recorder{Next: func(context.Context, *azq.RawJob) error {
		time.Sleep(azuritetest.Patience(20 * time.Millisecond))
		return nil
	}}
	run(t, qs, &h, heavySlots(1))
	eventually(t, func() error {
		if n := len(h.IDs()); n < 50 {
			return fmt.Errorf("%d done", n)
		}
		return nil
	})
	first := h.IDs()[:50]
	got := [3]int{count(first, "high"), count(first, "normal"), count(first, "low")}
	if got[0] <= got[1] || got[0] < 25 || got[1] < 4 || got[2] < 1 {
		t.Errorf("of the first 50 items %v were high, normal, low; want about 30, 15, 5: %v", got, first)
	}
}

// Q5: an urgent item does not wait behind other work: there is a slot for it on every
// worker, also on one with a single slot.
func TestUrgentWorkHasASlotOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{1, 3} {
		t.Run(fmt.Sprint(slots, " slots"), func(t *testing.T) {
			t.Parallel()
			qs := azqtest.Open(t, azuritetest.Account(t), encodeQueues()...)
			send(t, qs, normal, ids("normal", 30)...)
			block := make(chan struct{})
			h := azqtest.Recorder{Next: func(ctx context.Context, job *azq.RawJob) error {
				if job.Queue == normal {
					<-block
				}
				return nil
			}}
			run(t, qs, &h, heavySlots(slots))
			eventually(t, func() error {
				if n := count(h.IDs(), "normal"); n != slots {
					return fmt.Errorf("bulk work holds %d slots of %d, want all", n, slots)
				}
				return nil
			})
			send(t, qs, azq.LaneName(first, 2), "first")
			azuritetest.Eventually(t, 2*time.Second, func() error {
				if count(h.IDs(), "first") != 1 {
					return errors.New("the urgent item waits behind other work")
				}
				return nil
			})
			close(block)
		})
	}
}

// A handler is told by which declared queue its message came, whatever lane it was in.
func TestAJobNamesItsQueueInEveryLane(t *testing.T) {
	t.Parallel()
	qs := azqtest.Open(t, azuritetest.Account(t), encodeQueues()...)
	var mu sync.Mutex
	came := map[string]string{} // queue → its base
	run(t, qs, azq.HandlerFunc(func(_ context.Context, job *azq.RawJob) error {
		mu.Lock()
		defer mu.Unlock()
		came[job.Queue] = job.Base
		return nil
	}), heavySlots(1))
	want := map[string]string{}
	for lane := range azq.DefaultLanes {
		name := azq.LaneName(high, lane)
		want[name] = high
		send(t, qs, name, fmt.Sprint("lane", lane))
		azqtest.WaitEmpty(t, qs.Queue(name))
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff(want, came); diff != "" {
		t.Errorf("queues and their bases (-want +got):\n%s", diff)
	}
}

// Q5: urgent work of the same customer gets most of the time: its share by weight, and the
// slot of its own. The rest goes on.
func TestUrgentWorkGetsMostOfTheTime(t *testing.T) {
	t.Parallel()
	qs := azqtest.Open(t, azuritetest.Account(t), encodeQueues()...)
	send(t, qs, high, ids("high", 100)...)
	send(t, qs, first, ids("first", 50)...)
	h := azqtest.Recorder{Next: func(context.Context, *azq.RawJob) error { time.Sleep(20 * time.Millisecond); return nil }}
	run(t, qs, &h, heavySlots(2))
	eventually(t, func() error {
		if n := count(h.IDs(), "first"); n < 50 {
			return fmt.Errorf("%d done", n)
		}
		return nil
	})
	if others := count(h.IDs(), "high"); others == 0 || others > 65 {
		t.Errorf("%d other items were done beside 50 urgent ones, want some, about 30: %v", others, h.IDs())
	}
}

// Q5: the noisy neighbour. One customer has 200 items waiting. The only item of
// another, in another lane, does not wait for them.
func TestNoisyNeighbourWaitsForItself(t *testing.T) {
	t.Parallel()
	qs := azqtest.Open(t, azuritetest.Account(t), encodeQueues()...)
	send(t, qs, azq.LaneName(normal, 1), ids("noisy", 200)...)
	h := azqtest.Recorder{Next: func(context.Context, *azq.RawJob) error { time.Sleep(50 * time.Millisecond); return nil }}
	run(t, qs, &h, heavySlots(2))
	eventually(t, func() error {
		if n := len(h.IDs()); n < 10 {
			return fmt.Errorf("%d done", n)
		}
		return nil
	})
	send(t, qs, azq.LaneName(normal, 2), "quiet")
	sent := len(h.IDs())
	eventually(t, func() error {
		if count(h.IDs(), "quiet") == 0 {
			return errors.New("the quiet customer waits")
		}
		return nil
	})
	if at := slices.IndexFunc(h.IDs(), func(id string) bool { return strings.HasPrefix(id, "quiet") }); at-sent > 8 {
		t.Errorf("the quiet customer's item came after %d of the noisy one's", at-sent)
	}
}

// An item sent by the same process is picked up at once, however long the queue
// was idle.
func TestLocalSendWakesThePoller(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	spec := oneQueue(30 * time.Second)
	spec.MaxIdlePoll = time.Minute
	qs := azqtest.Open(t, azuritetest.Account(t), spec)
	var h azqtest.Recorder
	c, _ := run(t, qs, &h)
	c.WaitCounts(t, jobs, func(s azq.QueueStats) bool { return s.EmptyPolls >= 6 }) // it now sleeps for 5 s or more
	send(t, qs, jobs, "x")
	azuritetest.Eventually(t, time.Second, func() error {
		if len(h.IDs()) == 0 {
			return errors.New("not picked up")
		}
		return nil
	})
}

// SIGTERM: the message is visible to others within a second, and it cost no attempt.
func TestDrainGivesBackWithinASecond(t *testing.T) {
	t.Parallel()
	for name, stubborn := range map[string]bool{"obedient": false, "stubborn": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			qs := azqtest.Open(t, azuritetest.Account(t), oneQueue(time.Minute))
			q := qs.Queue(jobs)
			started, visible := make(chan struct{}), make(chan struct{})
			seen := sync.OnceFunc(func() { close(visible) })
			var cause error
			returned := false
			_, drain := run(t, qs, azq.HandlerFunc(func(ctx context.Context, _ *azq.RawJob) error {
				close(started)
				<-ctx.Done()
				cause = context.Cause(ctx)
				if stubborn { // it goes on until others see the message
					<-visible
				}
				returned = true
				return azq.Permanent(errors.New("an echo of being killed"))
			}))
			t.Cleanup(seen) // also when it is not seen, or the handler would never return
			send(t, qs, jobs, "x")
			<-started
			began := time.Now()
			drained := make(chan struct{})
			go func() { defer close(drained); drain() }()
			azuritetest.Eventually(t, time.Second, func() error {
				seen, err := q.Peek(t.Context(), 1)
				if err == nil && len(seen) == 0 {
					err = errors.New("still hidden")
				}
				return err
			})
			t.Logf("visible after %v", time.Since(began))
			seen()
			<-drained
			if !returned || !errors.Is(cause, azq.ErrDraining) {
				t.Errorf("returned %v, cause %v", returned, cause)
			}
			given, err := q.Peek(t.Context(), 1)
			// A receive that was under way when the drain began may get it, and give it back, once more.
			if err != nil || len(given) != 1 || given[0].Item.Failures != 0 || given[0].Item.Releases < 1 || given[0].Item.Releases > 2 {
				t.Errorf("given back: %+v, %v", given, err)
			}
		})
	}
}

// A lease is renewed while the work moves, for much longer than the visibility.
func TestWorkThatMovesKeepsItsLease(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	qs := azqtest.Open(t, azuritetest.Account(t), oneQueue(2*time.Second))
	var renewals atomic.Int64
	h := azqtest.Recorder{Next: func(ctx context.Context, job *azq.RawJob) error {
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			job.Progress()
		}
		renewals.Store(job.Renewals())
		return ctx.Err()
	}}
	withStall := func(o *azq.Options) { o.StallAfter = time.Second }
	one, drainOne := run(t, qs, &h, withStall)
	two, drainTwo := run(t, qs, &h, withStall)
	send(t, qs, jobs, "x")
	azqtest.WaitEmpty(t, qs.Queue(jobs))
	drainOne()
	drainTwo()
	a, b := azqtest.Counts(one.Stats(), jobs), azqtest.Counts(two.Stats(), jobs)
	if n := len(h.IDs()); n != 1 || a.Renewals+b.Renewals < 5 || a.Completed+b.Completed != 1 {
		t.Errorf("%d deliveries, %d renewals: %+v %+v", n, a.Renewals+b.Renewals, a, b)
	}
	if n := renewals.Load(); n < 5 || n > a.Renewals+b.Renewals {
		t.Errorf("the job knows of %d renewals, the consumers of %d", n, a.Renewals+b.Renewals)
	}
}

// Q16c: work that moves may take longer than the visibility.
func TestWorkLongerThanItsVisibility(t *testing.T) {
	t.Parallel()
	const visibility = 2 * time.Second
	qs := azqtest.Open(t, azuritetest.Account(t), oneQueue(visibility))
	h := azqtest.Recorder{Next: func(ctx context.Context, job *azq.RawJob) error {
		for began := time.Now(); time.Since(began) < visibility+visibility/4; time.Sleep(20 * time.Millisecond) {
			job.Progress()
			if ctx.Err() != nil {
				t.Errorf("the work was stopped after %v: %v", time.Since(began).Round(100*time.Millisecond), context.Cause(ctx))
				return nil
			}
		}
		return nil
	}}
	_, drain := run(t, qs, &h)
	send(t, qs, jobs, "x")
	azqtest.WaitEmpty(t, qs.Queue(jobs))
	drain()
	if n := len(h.IDs()); n != 1 {
		t.Errorf("the item was delivered %d times", n)
	}
}

// A handler that hangs is stopped and the attempt counts.
func TestStalledWorkIsStopped(t *testing.T) {
	t.Parallel()
	qs := azqtest.Open(t, azuritetest.Account(t), oneQueue(2*time.Second))
	var cause error
	h := azqtest.Recorder{Next: func(ctx context.Context, job *azq.RawJob) error {
		if job.Attempt() == 2 {
			if !strings.Contains(job.Item.LastError, "no progress") {
				return fmt.Errorf("history says %q", job.Item.History)
			}
			return nil
		}
		<-ctx.Done()
		cause = context.Cause(ctx)
		return ctx.Err()
	}}
	c, drain := run(t, qs, &h, func(o *azq.Options) { o.StallAfter = 700 * time.Millisecond })
	send(t, qs, jobs, "x")
	azqtest.WaitEmpty(t, qs.Queue(jobs))
	drain()
	if s := azqtest.Counts(c.Stats(), jobs); !errors.Is(cause, azq.ErrStalled) || s.Stalled != 1 || s.Failed != 1 || s.Completed != 1 {
		t.Errorf("cause %v, counters %+v", cause, s)
	}
}

// Q17: when the message turns out to be gone, the handler is told, nothing is
// written, and the worker goes on with other work.
func TestLostLeaseCancelsTheWork(t *testing.T) {
	t.Parallel()
	qs := azqtest.Open(t, azuritetest.Account(t), oneQueue(2*time.Second))
	causes := make(chan error, 1)
	h := azqtest.Recorder{Next: func(ctx context.Context, job *azq.RawJob) error {
		if job.Item.ID == "next" {
			return nil
		}
		for ctx.Err() == nil {
			job.Progress()
			time.Sleep(20 * time.Millisecond)
		}
		causes <- context.Cause(ctx)
		return ctx.Err()
	}}
	c, _ := run(t, qs, &h)
	send(t, qs, jobs, "lost")
	eventually(t, func() error {
		if len(h.IDs()) != 1 {
			return errors.New("not started")
		}
		return nil
	})
	azqtest.LoseLease(t, qs.Queue(jobs))
	if cause := <-causes; !errors.Is(cause, azq.ErrLeaseLost) {
		t.Errorf("cause = %v, want ErrLeaseLost", cause)
	}
	send(t, qs, jobs, "next")
	c.WaitCounts(t, jobs, func(s azq.QueueStats) bool {
		return s.StaleRenewals == 1 && s.Completed == 1 && s.Failed+s.Released+s.SettleErrors == 0
	})
}

// Q16c: when the storage does not answer, work stops before its visibility ends,
// and being stopped costs no attempt.
func TestWorkStopsBeforeItsLeaseEnds(t *testing.T) {
	t.Parallel()
	good := azuritetest.Account(t)
	var mu sync.Mutex
	blackout := true
	faults := &inject.Transport{Choose: func(r *http.Request) inject.Fault {
		mu.Lock()
		defer mu.Unlock()
		if blackout && r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/messages/") {
			return inject.Reset
		}
		return inject.None
	}}
	bad := azuritetest.AccountWith(t, func(c *azstore.Config) { c.Prefix, c.Transport = good.Prefix(), faults })
	const visibility = 3 * time.Second
	qs := azqtest.Open(t, bad, oneQueue(visibility))
	var left time.Duration
	var cause error
	h := azqtest.Recorder{Next: func(ctx context.Context, job *azq.RawJob) error {
		if job.DequeueCount > 1 {
			return nil
		}
		<-ctx.Done()
		cause, left = context.Cause(ctx), visibility-time.Since(job.Received)
		mu.Lock()
		blackout = false
		mu.Unlock()
		return ctx.Err()
	}}
	c, drain := run(t, qs, &h)
	send(t, qs, jobs, "x")
	azqtest.WaitEmpty(t, qs.Queue(jobs))
	drain()
	s := azqtest.Counts(c.Stats(), jobs)
	if !errors.Is(cause, azq.ErrLeaseEnding) || left <= 0 || s.LeasesEnding != 1 || s.Failed != 0 || s.Released != 1 || faults.Fired() == 0 {
		t.Errorf("cause %v, %v before the end, %d faults, counters %+v", cause, left, faults.Fired(), s)
	}
}

// Q16d: work whose lease is not renewed, because it seems to hang, is longer than the
// timeout, so deletes come too late; the timeout is raised, another consumer adopts it, and
// the late deletes end.
func TestLateDeletesRaiseTheVisibilityOfEveryWorker(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	const tooShort = time.Second
	slow := azq.HandlerFunc(func(context.Context, *azq.RawJob) error { time.Sleep(1300 * time.Millisecond); return nil })
	stalls := func(o *azq.Options) { o.StallAfter = 300 * time.Millisecond }
	first, second := azqtest.Open(t, a, oneQueue(tooShort)), azqtest.Open(t, a, oneQueue(tooShort))
	one, _ := run(t, first, slow, stalls)
	two, drainTwo := run(t, second, slow, stalls)
	send(t, first, jobs, ids("i", 12)...)
	azqtest.WaitEmpty(t, first.Queue(jobs))
	for name, c := range map[string]azqtest.Worker{"one": one, "two": two} {
		c.WaitCounts(t, jobs, func(s azq.QueueStats) bool { return s.Visibility >= 2*time.Second })
		t.Logf("worker %s: %+v", name, azqtest.Counts(c.Stats(), jobs))
	}
	if n := azqtest.Counts(one.Stats(), jobs).StaleDeletes + azqtest.Counts(two.Stats(), jobs).StaleDeletes; n < 3 {
		t.Errorf("%d late deletes, want at least 3", n)
	}
	// A role that starts now knows at once.
	drainTwo()
	third, _ := run(t, azqtest.Open(t, a, oneQueue(tooShort)), slow, stalls)
	third.WaitCounts(t, jobs, func(s azq.QueueStats) bool { return s.Visibility >= 2*time.Second })
}

// Q6: an old worker meets the message of a newer one. It puts it back, without
// cost, until a newer worker takes it, and nothing in it has changed.
func TestOldAndNewWorkersShareAQueue(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	qs := azqtest.Open(t, a, oneQueue(30*time.Second))
	client := a.Queue(jobs)
	newData, unknown := `{"shape":"new",  "n":1.50}`, `"region":{"b" :1,"a":"\u00e9"}`
	newer := `{"specversion":"1.0","id":"newer","type":"cutroom.work.work.v3","subject":"s",` + unknown + `,"data":` + newData + `}`
	older := `{"specversion":"1.0","id":"older","type":"cutroom.work.work.v1","subject":"s",` + unknown + `}`
	unknownStep := `{"specversion":"1.0","id":"step","type":"cutroom.work.dash.v1","subject":"s",` + unknown + `}`
	for _, text := range []string{newer, older, unknownStep} {
		azqtest.SendText(t, a, jobs, text)
	}
	// The old worker is ours. It does what it knows, failing once on the way.
	old := azqtest.Recorder{Next: func(_ context.Context, job *azq.RawJob) error {
		if job.Attempt() == 1 {
			return errors.New("once")
		}
		return nil
	}}
	c, drain := run(t, qs, &old)
	c.WaitCounts(t, jobs, func(s azq.QueueStats) bool { return s.PutBack >= 4 && s.Completed == 1 })
	drain()
	if diff := cmp.Diff([]string{"older", "older"}, old.IDs()); diff != "" {
		t.Errorf("the old worker handled (-want +got):\n%s", diff)
	}
	// The new worker is another implementation: it has only the SDK.
	found := map[string]string{}
	eventually(t, func() error {
		got, err := client.DequeueMessages(t.Context(), &azqueue.DequeueMessagesOptions{NumberOfMessages: new(int32(32))})
		if err != nil {
			return err
		}
		for _, m := range got.Messages {
			raw, err := base64.StdEncoding.DecodeString(*m.MessageText)
			if err != nil {
				return err
			}
			for _, id := range []string{"newer", "step"} {
				if strings.Contains(string(raw), `"id":"`+id+`"`) {
					found[id] = string(raw)
				}
			}
		}
		if len(found) != 2 {
			return fmt.Errorf("found %v", slices.Collect(maps.Keys(found)))
		}
		return nil
	})
	if !strings.Contains(found["newer"], newData) || !strings.Contains(found["newer"], unknown) || !strings.Contains(found["step"], unknown) {
		t.Errorf("the messages changed:\n%s\n%s", found["newer"], found["step"])
	}
	if s := azqtest.Counts(c.Stats(), jobs); s.Poisoned != 0 || s.Failed != 1 {
		t.Errorf("counters %+v", s)
	}
}

// exhausted is a handler that always fails and hears of the end.
type exhausted struct {
	azqtest.Recorder
	fail   error
	refuse int // times that it cannot record the end
	spare  bool
	mu     sync.Mutex
	ended  []string
}

func (e *exhausted) Handle(ctx context.Context, job *azq.RawJob) error {
	_ = e.Recorder.Handle(ctx, job)
	if e.fail == nil {
		panic("handler bug")
	}
	return e.fail
}

func (e *exhausted) Exhausted(_ context.Context, job *azq.RawJob, cause error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refuse > 0 {
		e.refuse--
		return errors.New("the table is busy")
	}
	e.ended = append(e.ended, job.Item.ID+": "+cause.Error())
	if e.spare {
		return azq.Unwanted("it is sent again later")
	}
	return nil
}

func poisoned(t *testing.T, qs *azq.Client, n int) []azq.Poisoned {
	t.Helper()
	list := azqtest.WaitPoison(t, qs, n)
	azqtest.WaitEmpty(t, qs.Queue(jobs))
	return list
}

// Five recorded failures make poison; a redrive gives five new attempts.
func TestFailuresMakePoisonAndRedriveHelps(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]error{"error": errors.New("disk full"), "panic": nil, "told delay": azq.RetryAfter(errors.New("disk full"), 0)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			qs := azqtest.Open(t, azuritetest.Account(t), oneQueue(30*time.Second))
			h := &exhausted{fail: fail, refuse: 1}
			c, drain := run(t, qs, h)
			send(t, qs, jobs, "x")
			p := poisoned(t, qs, 1)[0]
			drain()
			if n := len(h.IDs()); n != 5 || len(h.ended) != 1 || p.ItemID != "x" || p.Failures != 5 || strings.Count(p.History, "\n") != 4 {
				t.Errorf("%d attempts, told %v, poisoned %+v", n, h.ended, p)
			}
			if s := azqtest.Counts(c.Stats(), jobs); s.Failed != 5 || s.Poisoned != 1 || (fail == nil) != (s.Panics == 5) {
				t.Errorf("counters %+v", s)
			}
			if _, err := qs.Redrive(t.Context(), p.ID); err != nil {
				t.Fatal(err)
			}
			var cured azqtest.Recorder
			run(t, qs, &cured)
			azqtest.WaitEmpty(t, qs.Queue(jobs))
			if diff := cmp.Diff([]string{"x"}, cured.IDs()); diff != "" {
				t.Errorf("after the redrive (-want +got):\n%s", diff)
			}
		})
	}
}

// An item whose work does not count as failed is deleted, not made poison.
func TestUnwantedAtTheEndIsNoPoison(t *testing.T) {
	t.Parallel()
	qs := azqtest.Open(t, azuritetest.Account(t), oneQueue(30*time.Second))
	h := &exhausted{fail: azq.Permanent(errors.New("not yet")), refuse: 1, spare: true}
	c, drain := run(t, qs, h)
	send(t, qs, jobs, "x")
	poisoned(t, qs, 0)
	drain()
	if s := azqtest.Counts(c.Stats(), jobs); s.Unwanted != 1 || s.Poisoned != 0 || len(h.ended) != 1 {
		t.Errorf("counters %+v, told %v", s, h.ended)
	}
}

// A permanent error is poison at once; what is no item is poison with a reason.
func TestPermanentAndMalformedArePoisonAtOnce(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	qs := azqtest.Open(t, a, oneQueue(30*time.Second))
	h := &exhausted{fail: fmt.Errorf("wrapped: %w", azq.Permanent(errors.New("not a video")))}
	_, drain := run(t, qs, h)
	send(t, qs, jobs, "x")
	if _, err := a.Queue(jobs).EnqueueMessage(t.Context(), "rubbish", nil); err != nil {
		t.Fatal(err)
	}
	list := poisoned(t, qs, 2)
	drain()
	slices.SortFunc(list, func(a, b azq.Poisoned) int { return strings.Compare(a.ItemID, b.ItemID) })
	if string(list[0].Text) != "rubbish" || !strings.Contains(list[0].Reason, "not a work item") {
		t.Errorf("malformed: %+v", list[0])
	}
	if list[1].ItemID != "x" || list[1].Failures != 1 || list[1].Reason != "wrapped: not a video" || len(h.IDs()) != 1 {
		t.Errorf("permanent: %+v after %v", list[1], h.IDs())
	}
	if diff := cmp.Diff([]string{"x: wrapped: not a video"}, h.ended); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// Snoozing is no failure, however often it happens.
func TestSnoozeCostsNoAttempt(t *testing.T) {
	t.Parallel()
	qs := azqtest.Open(t, azuritetest.Account(t), oneQueue(30*time.Second))
	h := azqtest.Recorder{Next: func(_ context.Context, job *azq.RawJob) error {
		if job.Attempt() != 1 {
			return errors.New("counted as a failure")
		}
		if job.Item.Snoozes < 7 {
			return azq.Snooze(0, "not yet")
		}
		return nil
	}}
	c, _ := run(t, qs, &h)
	send(t, qs, jobs, "x")
	azqtest.WaitEmpty(t, qs.Queue(jobs))
	c.WaitCounts(t, jobs, func(s azq.QueueStats) bool { return s.Snoozed == 7 && s.Completed == 1 && s.Failed == 0 })
}

// An item that is not wanted is deleted, and is not completed.
func TestUnwantedIsNotCompleted(t *testing.T) {
	t.Parallel()
	qs := azqtest.Open(t, azuritetest.Account(t), oneQueue(30*time.Second))
	h := azqtest.Recorder{Next: func(context.Context, *azq.RawJob) error { return azq.Unwanted("its video is gone") }}
	c, _ := run(t, qs, &h)
	send(t, qs, jobs, "x")
	azqtest.WaitEmpty(t, qs.Queue(jobs))
	c.WaitCounts(t, jobs, func(s azq.QueueStats) bool { return s.Unwanted == 1 && s.Completed == 0 && s.Failed == 0 })
}

func TestPausedQueueIsLeftAlone(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	qs, web := azqtest.Open(t, a, oneQueue(30*time.Second)), azqtest.Open(t, a, oneQueue(30*time.Second))
	if err := web.Queue(jobs).Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	var h azqtest.Recorder
	c, _ := run(t, qs, &h)
	send(t, web, jobs, "x")
	c.WaitCounts(t, jobs, func(s azq.QueueStats) bool { return s.Paused && s.Length == 1 })
	if len(h.IDs()) != 0 {
		t.Error("a paused queue was consumed")
	}
	if err := web.Queue(jobs).Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	azqtest.WaitEmpty(t, qs.Queue(jobs))
}

// Q9: the handler sees the data of a claim check.
func TestHandlerSeesClaimCheckData(t *testing.T) {
	t.Parallel()
	qs := azqtest.Open(t, azuritetest.Account(t), oneQueue(30*time.Second))
	want := strings.Repeat("x", 60_000)
	got := make(chan string, 1)
	run(t, qs, azq.HandlerOf(func(_ context.Context, _ *azq.RawJob, data string) error {
		got <- data
		return nil
	}))
	item, err := azq.NewItem(step, "subject", "x", want)
	if err != nil {
		t.Fatal(err)
	}
	azqtest.Send(t, qs, jobs, item)
	if s := <-got; s != want {
		t.Errorf("got %d bytes, want %d", len(s), len(want))
	}
	azqtest.WaitEmpty(t, qs.Queue(jobs))
}

// Q8, Q13: replies are lost and requests fail everywhere, and still every item
// is done, none is poison and nothing is stuck.
func TestLostRepliesLoseNoWork(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	good := azuritetest.Account(t)
	faults := &inject.Transport{Choose: func(r *http.Request) inject.Fault {
		if !strings.Contains(r.URL.Path, "/messages") || rand.IntN(10) > 0 {
			return inject.None
		}
		kinds := []inject.Fault{inject.LostReply, inject.Reset, inject.ServerBusy, inject.TimedOut}
		return kinds[rand.IntN(len(kinds))]
	}}
	bad := azuritetest.AccountWith(t, func(c *azstore.Config) { c.Prefix, c.Transport = good.Prefix(), faults })
	qs := azqtest.Open(t, bad, oneQueue(2*time.Second))
	h := azqtest.Recorder{Next: func(ctx context.Context, _ *azq.RawJob) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(rand.IntN(1500)) * time.Millisecond):
			return nil
		}
	}}
	c, drain := run(t, qs, &h, func(o *azq.Options) { o.Pools = map[string]int{light: 16} })
	want := ids("i", 60)
	send(t, qs, jobs, want...)
	azqtest.WaitEmpty(t, azqtest.Open(t, good, oneQueue(2*time.Second)).Queue(jobs))
	drain()
	done := map[string]bool{}
	for _, id := range h.IDs() {
		done[id] = true
	}
	s := azqtest.Counts(c.Stats(), jobs)
	if len(done) != len(want) || s.Poisoned != 0 || s.Failed != 0 || faults.Fired() < 10 {
		t.Errorf("%d of %d items done, %d faults, counters %+v", len(done), len(want), faults.Fired(), s)
	}
	t.Logf("%d faults, %d deliveries, %+v", faults.Fired(), len(h.IDs()), s)
}
