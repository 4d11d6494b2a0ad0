package upkeep_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/engine/upkeep"
	"github.com/cutroom/cutroom/shared/engine/workers"
)

// leaseAnswers is a transport that counts how requests for leases were answered.
type leaseAnswers struct {
	next             *http.Client
	granted, refused atomic.Int32
}

func (l *leaseAnswers) Do(r *http.Request) (*http.Response, error) {
	answer, err := l.next.Do(r)
	if err == nil && r.URL.Query().Get("comp") == "lease" {
		switch answer.StatusCode {
		case http.StatusCreated: // a renewal is 200
			l.granted.Add(1)
		case http.StatusConflict:
			l.refused.Add(1)
		}
	}
	return answer, err
}

func TestOneLeaderAtATime(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	b := setup(t)
	var passes, told atomic.Int32
	stand := func() (*upkeep.Leader, *leaseAnswers, context.CancelFunc, chan struct{}) {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		answers := &leaseAnswers{next: &http.Client{Transport: transport}}
		own := azuritetest.AccountWith(t, func(cfg *azstore.Config) { cfg.Prefix, cfg.Transport = b.account.Prefix(), answers })
		l := &upkeep.Leader{Blobs: blobstore.New(own), Log: slog.New(slog.DiscardHandler), Duties: []upkeep.Duty{
			{Name: "count", Every: time.Hour, Do: func(context.Context) (int, error) {
				passes.Add(1)
				return 3, nil
			}},
		}, Passed: func(duty string, items int, failed bool, took time.Duration) {
			if duty == "count" && items == 3 && !failed && took > 0 {
				told.Add(1)
			}
		}}
		ctx, stop := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() { defer close(gone); l.Run(ctx) }()
		return l, answers, stop, gone
	}
	first, _, stopFirst, firstGone := stand()
	azuritetest.Eventually(t, 10*time.Second, func() error {
		if !first.Leading() || passes.Load() != 1 {
			return errors.New("there is no leader")
		}
		return nil
	})
	second, answers, stopSecond, secondGone := stand()
	defer func() { stopSecond(); <-secondGone }()
	azuritetest.Eventually(t, 10*time.Second, func() error {
		if answers.granted.Load()+answers.refused.Load() == 0 {
			return errors.New("the second has not asked for the lease")
		}
		return nil
	})
	if answers.granted.Load() > 0 || second.Leading() {
		t.Error("two lead")
	}
	stopFirst()
	<-firstGone // it gives the lease back, so its end is not waited for
	azuritetest.Eventually(t, 10*time.Second, func() error {
		if !second.Leading() || passes.Load() != 2 {
			return errors.New("the second does not take over")
		}
		return nil
	})
	azuritetest.Eventually(t, 10*time.Second, func() error {
		if told.Load() != 2 {
			return errors.New("the passes are not told of")
		}
		return nil
	})
}

// A leader that cannot renew its lease stops before another worker may lead, also when storage
// does not even answer (H8).
func TestLeaderStopsWithItsLease(t *testing.T) {
	azuritetest.Slow(t, "waits for a lease to end")
	t.Parallel()
	b := setup(t)
	storage := azuritetest.NewProxy(t)
	own := azuritetest.AccountWith(t, func(cfg *azstore.Config) {
		cfg.Prefix, cfg.ConnectionString = b.account.Prefix(), storage.ConnectionString()
	})
	ended := make(chan struct{})
	l := &upkeep.Leader{Blobs: blobstore.New(own), Log: slog.New(slog.DiscardHandler), Duties: []upkeep.Duty{
		{Name: "wait", Every: time.Hour, Do: func(ctx context.Context) (int, error) {
			storage.BeginAll(inject.Silence)
			<-ctx.Done()
			close(ended)
			return 0, nil
		}},
	}}
	ctx, stop := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() { defer close(gone); l.Run(ctx) }()
	defer func() { stop(); <-gone }()
	azuritetest.Eventually(t, time.Minute, func() error {
		if !l.Leading() {
			return errors.New("there is no leader")
		}
		return nil
	})
	azuritetest.Eventually(t, time.Minute, func() error {
		_, err := blobstore.New(b.account).AcquireLease(t.Context(), azq.ControlContainer, "upkeep", blobstore.MinLease)
		return err
	})
	select {
	case <-ended:
	default:
		t.Error("another worker leads, and the first goes on")
	}
}

// A duty that takes long does not delay another.
func TestDutiesHaveClocksOfTheirOwn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var short, long, failures atomic.Int32
	l := &upkeep.Leader{Passed: func(duty string, _ int, failed bool, _ time.Duration) {
		if duty == "long" {
			long.Add(1)
		}
		if failed {
			failures.Add(1)
		}
	}, Blobs: b.blobs, Log: slog.New(slog.DiscardHandler), Duties: []upkeep.Duty{
		{Name: "long", Every: time.Hour, Do: func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}},
		{Name: "short", Every: time.Millisecond, Do: func(context.Context) (int, error) {
			short.Add(1)
			return 0, nil
		}},
	}}
	ctx, stop := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() { defer close(gone); l.Run(ctx) }()
	azuritetest.Eventually(t, 10*time.Second, func() error {
		if short.Load() < 10 {
			return errors.New("the short duty waits for the long one")
		}
		return nil
	})
	stop()
	<-gone
	if long.Load() != 1 || failures.Load() != 0 {
		t.Errorf("a pass that the end of the term cut short: %d, %d failed", long.Load(), failures.Load())
	}
}

// While the register shows a leader that goes on, no other worker asks for the lease. When it
// shows it no more, one does.
func TestTheRegisterSavesRequestsForTheLease(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	b := setup(t)
	var stands atomic.Bool
	seen := time.Now()
	l := &upkeep.Leader{Blobs: b.blobs, Log: slog.New(slog.DiscardHandler), Peers: func(context.Context) ([]workers.Worker, error) {
		if !stands.Load() {
			seen = seen.Add(3 * time.Second)
		}
		return []workers.Worker{{Name: "other", Leader: true, SeenAt: seen}, {Name: "third"}}, nil
	}}
	ctx, counter := azstore.WithCounter(t.Context())
	ctx, stop := context.WithCancel(ctx)
	gone := make(chan struct{})
	go func() { defer close(gone); l.Run(ctx) }()
	defer func() { stop(); <-gone }()
	<-time.After(12 * time.Second)
	if n := counter.Requests(); n != 0 || l.Leading() {
		t.Errorf("beside a leader that goes on, %d requests for its lease, leads: %v", n, l.Leading())
	}
	stands.Store(true)
	azuritetest.Eventually(t, 25*time.Second, func() error {
		if !l.Leading() {
			return errors.New("does not lead, though the other says nothing more")
		}
		return nil
	})
}

// A worker without items writes its row seldom, and one with items every second.
func TestHeartbeatsOfIdleWorkersAreRare(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	account := azuritetest.Account(t)
	if err := account.Ensure(t.Context(), azstore.Names{Tables: []string{workers.Table}}); err != nil {
		t.Fatal(err)
	}
	beats := func(w workers.Worker) int {
		ctx, counter := azstore.WithCounter(t.Context())
		ctx, stop := context.WithTimeout(ctx, 8*time.Second)
		defer stop()
		upkeep.Heartbeat(ctx, workers.New(account), func() workers.Worker { return w }, slog.Default())
		return counter.Counts().Requests[azstore.TableWrite]
	}
	var busy, idle int
	var both sync.WaitGroup
	both.Go(func() { idle = beats(workers.Worker{Name: "idle"}) })
	both.Go(func() {
		busy = beats(workers.Worker{Name: "busy", Busy: []azq.Running{{Delivery: azq.Delivery{MessageID: "m"}}}})
	})
	both.Wait()
	if idle != 1 || busy < 4 {
		t.Errorf("%d heartbeats of an idle worker in 8 s, want 1, and %d of a busy one, want 4 or more", idle, busy)
	}
}

// A heartbeat tells within seconds that an item began, and does not wait for its turn.
func TestHeartbeatTellsWhatChanged(t *testing.T) {
	t.Parallel()
	account := azuritetest.Account(t)
	if err := account.Ensure(t.Context(), azstore.Names{Tables: []string{workers.Table}}); err != nil {
		t.Fatal(err)
	}
	register := workers.New(account)
	var now atomic.Pointer[workers.Worker]
	now.Store(&workers.Worker{Name: "w"})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		upkeep.Heartbeat(ctx, register, func() workers.Worker { return *now.Load() }, slog.Default())
	}()
	told := func(want int) time.Time {
		t.Helper()
		var seen time.Time
		azuritetest.Eventually(t, 10*time.Second, func() error {
			list, err := register.List(t.Context(), time.Time{})
			if err == nil && (len(list) != 1 || len(list[0].Busy) != want) {
				err = fmt.Errorf("the register has %+v", list)
			}
			if err == nil {
				seen = list[0].SeenAt
			}
			return err
		})
		return seen
	}
	first := told(0)
	now.Store(&workers.Worker{Name: "w", Busy: []azq.Running{{Delivery: azq.Delivery{MessageID: "m"}}}})
	if second := told(1); second.Sub(first) > 2*time.Second+500*time.Millisecond {
		t.Errorf("the register knew after %v", second.Sub(first))
	}
	stop()
	<-ended
	if list, err := register.List(t.Context(), time.Time{}); err != nil || len(list) != 0 {
		t.Errorf("after the end: %+v, %v", list, err)
	}
}
