package scenes

import (
	"context"
	"fmt"

	"github.com/cutroom/cutroom/shared/workitem"
	"github.com/cutroom/cutroom/shared/workqueue"
)

// desk is an actor's view of one queue.
type desk struct {
	*workqueue.Queue
	actor string
}

// Desk opens the queue of spec for an actor.
func (s *Stage) Desk(actor string, spec workqueue.Spec, options ...Option) desk {
	return desk{workqueue.OpenAll(s.Account(actor, options...), []workqueue.Spec{spec}).Queue(spec.Name), actor}
}

// Prepare creates the queues of specs and what they need, without telling it.
func (s *Stage) Prepare(ctx context.Context, specs ...workqueue.Spec) error {
	if err := workqueue.OpenAll(s.Account("stage"), specs).Ensure(Quiet(ctx)); err != nil {
		return fmt.Errorf("prepare the queues: %w", err)
	}
	return nil
}

// put sends an item with that id and data.
func (d desk) put(ctx context.Context, step, id string, data any) error {
	item, err := workitem.New(step, "", id, data)
	if err != nil {
		return err
	}
	return d.Send(ctx, item, 0)
}

// take receives one message. It polls, and only the poll that finds one is told.
func (d desk) take(ctx context.Context) (lease *workqueue.Lease, err error) {
	err = until(ctx, d.actor+" receives a message", func() (bool, error) {
		if seen, err := d.Peek(Quiet(ctx), 1); err != nil || len(seen) == 0 {
			return false, err
		}
		got, err := d.Receive(ctx, 1)
		if err != nil || len(got) == 0 {
			return false, err
		}
		lease = got[0]
		return true, nil
	})
	return lease, err
}

// takeAll receives n messages with one request, once all of them can be seen.
func (d desk) takeAll(ctx context.Context, n int) (leases []*workqueue.Lease, err error) {
	err = until(ctx, fmt.Sprintf("%s receives %d messages", d.actor, n), func() (bool, error) {
		if seen, err := d.Peek(Quiet(ctx), n); err != nil || len(seen) < n {
			return false, err
		}
		leases, err = d.Receive(ctx, n)
		return len(leases) == n, err
	})
	return leases, err
}

// id is the id of the item in a message, for telling.
func id(l *workqueue.Lease) string {
	item, err := l.Item()
	if err != nil {
		return err.Error()
	}
	return item.ID
}
