package enginetest_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
)

// user is what one who has a sum has done last, and so what may become of it.
type user struct {
	*rand.Rand
	id      engine.ID
	bad     bool // a number is negative: the gate rejects it
	deleted bool
	avg     []engine.Key
}

// acts does something at random with the sum. What its state does not allow is refused.
func (u *user) acts(b *bench) error {
	if u.id == "" || u.deleted && u.IntN(2) == 0 {
		return u.begins(b)
	}
	ctx, err := b.Context(), error(nil)
	switch u.IntN(8) {
	case 0:
		_, err = b.store.Cancel(ctx, u.id)
	case 1, 2:
		_, err = b.store.Retry(ctx, u.id)
	case 3:
		_, err = b.store.Reprocess(ctx, u.id)
	case 4:
		if _, err = b.store.Delete(ctx, u.id, ""); err == nil {
			u.deleted = true
		}
	case 5, 6:
		err = u.asks(b)
	}
	if errors.Is(err, engine.ErrState) || u.deleted && errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	return err
}

// begins uploads other numbers, of which one in four lists has a negative one.
func (u *user) begins(b *bench) error {
	numbers := make([]int, 1+u.IntN(40))
	for i := range numbers {
		numbers[i] = 1 + u.IntN(9)
	}
	u.bad = len(numbers)%2 == 1 && u.IntN(4) == 0
	if u.bad {
		numbers[u.IntN(len(numbers))] = -1
	}
	sum := enginetest.Awaiting()
	b.knows(sum.ID, numbers)
	u.id, u.deleted, u.avg = sum.ID, false, nil
	_, err := b.store.Create(b.Context(), sum)
	if err == nil {
		err = enginetest.PutNumbers(b.Context(), b.blobs, sum.ID, numbers)
	}
	if err == nil {
		_, err = b.store.Uploaded(b.Context(), sum.ID, enginetest.Epoch, "etag")
	}
	return err
}

func (u *user) asks(b *bench) error {
	rec, err := b.store.Get(b.Context(), u.id)
	if err != nil || rec.Subject.Serving == 0 {
		return err
	}
	key := engine.Key{ID: u.id, Generation: rec.Subject.Serving, Step: enginetest.Average, Length: 1}
	if _, err = b.ask(key); err == nil {
		u.avg = append(u.avg, key)
	}
	return err
}

// rests reports an error until the sum is what the model says: gone, failed by its gate, or ready
// and right. What was cancelled, or failed without a verdict, is taken up again.
func (u *user) rests(b *bench) error {
	rec, err := b.store.Get(b.Context(), u.id)
	if u.deleted && errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	if err != nil || u.deleted {
		return fmt.Errorf("%s is %s, deleted: %t, %w", u.id, rec.Subject.State, u.deleted, orNot(err))
	}
	sum := rec.Subject
	switch {
	case u.bad && sum.State == engine.Failed && sum.Error.Code == enginetest.NegativeNumber && sum.Serving == 0:
		return nil
	case !u.bad && sum.State == engine.Ready:
		return b.wrong(sum)
	case sum.State == engine.Cancelled || sum.State == engine.Failed:
		_, err = b.store.Retry(b.Context(), u.id)
	}
	return fmt.Errorf("%s is %s with %v, a number is negative: %t, %w", u.id, sum.State, sum.Error, u.bad, orNot(err))
}

// watch notes what is done and reports what is undone or done a second time, until stop is closed.
func (b *bench) watch(stop chan struct{}) {
	done := map[string]string{}
	for {
		for key, row := range b.rows("sums") {
			attempt := row.String("Attempt")
			if before, was := done[key]; was && (row.String("State") != string(engine.RunDone) || attempt != before) {
				b.Errorf("%s was done by %s, and is %s by %s", key, before, row.String("State"), attempt)
			} else if row.String("State") == string(engine.RunDone) {
				done[key] = attempt
			}
		}
		select {
		case <-stop:
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Users do what they like, workers are killed, stopped and frozen, and queues lose messages. Then
// everything comes to rest, and is as the model says. SOAK=5m takes longer, SEED repeats one.
func TestSoakOfSums(t *testing.T) {
	azuritetest.Slow(t, "takes a minute")
	t.Parallel()
	lasts, err := time.ParseDuration(os.Getenv("SOAK"))
	if err != nil {
		lasts = 25 * time.Second
	}
	seed, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("SEED=%d SOAK=%s", seed, lasts)
	b := newBench(t, 3*time.Second)
	b.order.Upkeep, b.order.Slow, b.order.Flaky = true, 50*time.Millisecond, 3
	end, stop := time.Now().Add(lasts), make(chan struct{})
	var users []*user
	var busy, watcher sync.WaitGroup
	rest := sync.OnceFunc(func() { close(stop); watcher.Wait() })
	t.Cleanup(rest)
	watcher.Go(func() { b.watch(stop) })
	for i := range 10 {
		u := &user{Rand: rand.New(rand.NewPCG(seed, uint64(i)))}
		users = append(users, u)
		busy.Go(func() {
			for time.Now().Before(end) {
				if err := u.acts(b); err != nil {
					b.Errorf("%s: %v", u.id, err)
				}
				time.Sleep(time.Duration(u.IntN(2000)) * time.Millisecond)
			}
		})
	}
	t.Log(b.disturb(rand.New(rand.NewPCG(seed, 99)), end))
	busy.Wait()
	for _, u := range users {
		azuritetest.Eventually(t, 2*time.Minute, func() error { return u.rests(b) })
		for _, key := range u.avg {
			if !u.deleted {
				b.averaged(key)
			}
		}
	}
	rest()
	b.atRest()
}

// disturb keeps three workers running until end, and does to them and their queues what is
// bad for them. It leaves three that are well.
func (b *bench) disturb(r *rand.Rand, end time.Time) string {
	b.Helper()
	did, started := map[string]int{}, 0
	next := func() *process {
		started++
		return b.start(func(o *order) { o.Name = fmt.Sprint("worker-", started) })
	}
	workers := []*process{next(), next(), next()}
	for time.Now().Before(end) {
		time.Sleep(time.Duration(200+r.IntN(1200)) * time.Millisecond)
		i := r.IntN(len(workers))
		switch victim := workers[i]; r.IntN(6) {
		case 0, 1:
			did["killed"]++
			b.must(victim.Process.Kill())
			_ = victim.end()
			workers[i] = next()
		case 2:
			did["stopped"]++
			b.drain(victim)
			workers[i] = next()
		case 3:
			did["frozen"]++
			b.must(victim.Process.Signal(syscall.SIGSTOP))
			time.Sleep(time.Duration(500+r.IntN(5000)) * time.Millisecond)
			b.must(victim.Process.Signal(syscall.SIGCONT))
		case 4:
			did["cleared"]++
			b.must(b.queues.Queue(b.queues.Specs()[r.IntN(3)].Name).Clear(b.Context()))
		case 5:
			did["lost"]++
			leases, err := b.queues.Queue(b.queues.Specs()[r.IntN(3)].Name).Receive(b.Context(), 1)
			b.must(err)
			for _, lease := range leases {
				_ = lease.Complete(b.Context())
			}
		}
	}
	return fmt.Sprint(did)
}
