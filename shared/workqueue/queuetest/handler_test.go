package queuetest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/testkit/azuritetest"
	"github.com/cutroom/cutroom/shared/workitem"
	"github.com/cutroom/cutroom/shared/workqueue"
	"github.com/cutroom/cutroom/shared/workqueue/consumer"
	"github.com/cutroom/cutroom/shared/workqueue/queuetest"
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

func (s *shop) book(ctx context.Context, job *consumer.Job, b booking) error {
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
func open(t *testing.T, b booking) (*workqueue.Queues, workitem.Item) {
	t.Helper()
	spec := workqueue.Spec{Name: queue, Steps: []string{"book"}, Pool: queue, Visibility: 2 * time.Second, MaxIdlePoll: 200 * time.Millisecond}
	item, err := workitem.New("book", "screws", "delivery-1", b)
	if err != nil {
		t.Fatal(err)
	}
	return queuetest.Open(t, azuritetest.Account(t), spec), item
}

func handlers(h consumer.Handler) map[string]consumer.Handler {
	return map[string]consumer.Handler{"book": h}
}

// Q8: a second delivery of the same message, and a duplicate, book nothing more.
func TestDeliveredTwiceIsBookedOnce(t *testing.T) {
	t.Parallel()
	s := newShop()
	queues, item := open(t, booking{Pieces: 5})
	worker := queuetest.Start(t, queues, handlers(queuetest.Twice(consumer.Handle(s.book))))
	queuetest.Send(t, queues, queue, item, item)
	queuetest.WaitEmpty(t, queues.Queue(queue))
	worker.WaitCounts(t, queue, func(q consumer.QueueStats) bool { return q.Completed == 2 })
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
	queuetest.Start(t, queues, handlers(consumer.Handle(s.book)))
	queuetest.Send(t, queues, queue, item)
	<-s.began
	queuetest.LoseLease(t, queues.Queue(queue))
	if cause := <-s.ended; !errors.Is(cause, workqueue.ErrLeaseLost) {
		t.Errorf("cause %v, want ErrLeaseLost", cause)
	}
	s.want(t, 0)
}

// A drain costs nothing, and the next worker books.
func TestDrainedWorkIsTakenUpByTheNextWorker(t *testing.T) {
	t.Parallel()
	s := newShop()
	queues, item := open(t, booking{Pieces: 5, Slow: true})
	worker := queuetest.Start(t, queues, handlers(consumer.Handle(s.book)))
	queuetest.Send(t, queues, queue, item)
	<-s.began
	worker.Drain()
	if cause := <-s.ended; !errors.Is(cause, workqueue.ErrDraining) {
		t.Errorf("cause %v, want ErrDraining", cause)
	}
	next := queuetest.Start(t, queues, handlers(consumer.Handle(s.book)))
	queuetest.WaitEmpty(t, queues.Queue(queue))
	next.WaitCounts(t, queue, func(q consumer.QueueStats) bool { return q.Completed == 1 && q.Failed == 0 })
	s.want(t, 5)
}

// Q6: a message of an older release has members that are gone and lacks new ones.
func TestOldMessageIsStillUnderstood(t *testing.T) {
	t.Parallel()
	s := newShop()
	a := azuritetest.Account(t)
	queues := queuetest.Open(t, a, workqueue.Spec{Name: queue, Steps: []string{"book"}, Pool: queue})
	queuetest.Start(t, queues, handlers(consumer.Handle(s.book)))
	queuetest.SendText(t, a, queue, `{"specversion":"1.0","id":"old","type":"`+typeOf("book")+`","colour":"red","data":{"pieces":3,"box":7}}`)
	queuetest.WaitEmpty(t, queues.Queue(queue))
	s.want(t, 3)
}

// typeOf is the type of a step's messages in version 1.
func typeOf(step string) string { return workitem.Item{Step: step, Version: 1}.Type() }
