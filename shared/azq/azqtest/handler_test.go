package azqtest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

const queue = "stock"

// booking is the data of an item: so many pieces come into the shop.
type booking struct {
	Pieces int `json:"pieces"`
	Slow   bool
}

// shop is the handler under test. It books every item once, whatever happens.
type shop struct {
	mu     sync.Mutex
	booked map[string]bool
	pieces int
	began  chan struct{}
	ended  chan error
}

func newShop() *shop {
	return &shop{booked: map[string]bool{}, began: make(chan struct{}, 8), ended: make(chan error, 8)}
}

func (s *shop) book(ctx context.Context, job *azq.RawJob, b booking) error {
	s.began <- struct{}{}
	for b.Slow && job.DequeueCount == 1 && ctx.Err() == nil { // until it is interrupted
		job.Progress()
		time.Sleep(10 * time.Millisecond)
	}
	if ctx.Err() != nil {
		s.ended <- context.Cause(ctx)
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.booked[job.Item.ID] { // the id is the same in every delivery and duplicate
		s.booked[job.Item.ID] = true
		s.pieces += b.Pieces
	}
	return nil
}

func (s *shop) want(t *testing.T, pieces int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pieces != pieces {
		t.Errorf("%d pieces are booked, want %d", s.pieces, pieces)
	}
}

// open makes the queue, with a short visibility, and an item for it.
func open(t *testing.T, b booking) (*azq.Client, azq.Item) {
	t.Helper()
	spec := azq.Spec{Name: queue, Kinds: []string{"book"}, Pool: queue, Visibility: 2 * time.Second, MaxIdlePoll: 200 * time.Millisecond}
	item, err := azq.NewItem("book", "screws", "delivery-1", b)
	if err != nil {
		t.Fatal(err)
	}
	return azqtest.Open(t, azuritetest.Account(t), spec), item
}

func handlers(h azq.Handler) map[string]azq.Handler {
	return map[string]azq.Handler{"book": h}
}

// Q8: a second delivery of the same message, and a duplicate, book nothing more.
func TestDeliveredTwiceIsBookedOnce(t *testing.T) {
	t.Parallel()
	s := newShop()
	queues, item := open(t, booking{Pieces: 5})
	worker := azqtest.Start(t, queues, handlers(azqtest.Twice(azq.HandlerOf(s.book))))
	azqtest.Send(t, queues, queue, item, item)
	azqtest.WaitEmpty(t, queues.Queue(queue))
	worker.WaitCounts(t, queue, func(q azq.QueueStats) bool { return q.Completed == 2 })
	if n := len(s.began); n != 4 {
		t.Errorf("%d deliveries, want two of each of two messages", n)
	}
	s.want(t, 5)
}

// Q17: the message is another consumer's: nothing is booked.
func TestLostLeaseBooksNothing(t *testing.T) {
	t.Parallel()
	s := newShop()
	queues, item := open(t, booking{Pieces: 5, Slow: true})
	azqtest.Start(t, queues, handlers(azq.HandlerOf(s.book)))
	azqtest.Send(t, queues, queue, item)
	<-s.began
	azqtest.LoseLease(t, queues.Queue(queue))
	if cause := <-s.ended; !errors.Is(cause, azq.ErrLeaseLost) {
		t.Errorf("cause %v, want ErrLeaseLost", cause)
	}
	s.want(t, 0)
}

// A drain costs nothing, and the next worker books.
func TestDrainedWorkIsTakenUpByTheNextWorker(t *testing.T) {
	t.Parallel()
	s := newShop()
	queues, item := open(t, booking{Pieces: 5, Slow: true})
	worker := azqtest.Start(t, queues, handlers(azq.HandlerOf(s.book)))
	azqtest.Send(t, queues, queue, item)
	<-s.began
	worker.Drain()
	if cause := <-s.ended; !errors.Is(cause, azq.ErrDraining) {
		t.Errorf("cause %v, want ErrDraining", cause)
	}
	next := azqtest.Start(t, queues, handlers(azq.HandlerOf(s.book)))
	azqtest.WaitEmpty(t, queues.Queue(queue))
	next.WaitCounts(t, queue, func(q azq.QueueStats) bool { return q.Completed == 1 && q.Failed == 0 })
	s.want(t, 5)
}

// Q6: a message of an older release has members that are gone and lacks new ones.
func TestOldMessageIsStillUnderstood(t *testing.T) {
	t.Parallel()
	s := newShop()
	a := azuritetest.Account(t)
	queues := azqtest.Open(t, a, azq.Spec{Name: queue, Kinds: []string{"book"}, Pool: queue})
	azqtest.Start(t, queues, handlers(azq.HandlerOf(s.book)))
	azqtest.SendText(t, a, queue, `{"specversion":"1.0","id":"old","type":"`+typeOf("book")+`","colour":"red","data":{"pieces":3,"box":7}}`)
	azqtest.WaitEmpty(t, queues.Queue(queue))
	s.want(t, 3)
}

// typeOf is the type of a step's messages in version 1.
func typeOf(step string) string { return azq.Item{Kind: step, Version: 1}.Type() }
