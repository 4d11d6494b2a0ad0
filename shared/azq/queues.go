package azq

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// Queues is every queue of a stack. It is safe for concurrent use.
type Queues struct {
	account *azstore.Account
	specs   []Spec
	byName  map[string]*Queue
	poison  *tablestore.Table

	lanes laneLengths
}

// Containers that the queues use. Names are completed with the stack's prefix.
const (
	ClaimsContainer  = "claims"  // claim checks (paper row Q9)
	ControlContainer = "control" // blob leases: of writers of policies, and of elected duties
)

var containers = []string{ClaimsContainer, ControlContainer}

// OpenAll opens the queues of specs with their lanes. It makes no request.
func OpenAll(a *azstore.Account, specs []Spec) *Queues {
	specs = withLanes(specs)
	qs := &Queues{account: a, byName: make(map[string]*Queue, len(specs)), poison: tablestore.New(a, PoisonTable)}
	qs.lanes.sent, _ = lru.New[string, sending](maxCustomers) // fails for a size below 1 only
	for _, spec := range specs {
		q := Open(a, spec) // Open sets the spec's defaults
		if spec.lane > 0 {
			q.lead = qs.byName[spec.Base()]
		}
		qs.byName[spec.Name] = q
		qs.specs = append(qs.specs, q.spec)
	}
	return qs
}

// Ensure creates the queues and what else they need, if missing. Safe to repeat.
func (qs *Queues) Ensure(ctx context.Context) error {
	there, err := qs.List(ctx) // one request instead of one for each queue
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(namesOf(qs.specs), func(name string) bool {
		return slices.Contains(there, qs.account.Name(name))
	})
	return qs.account.Ensure(ctx, containers, missing, []string{PoisonTable})
}

// Specs returns the declarations in their order, one for each lane.
func (qs *Queues) Specs() []Spec { return qs.specs }

// Queue returns a queue by its base name, or nil when there is none.
func (qs *Queues) Queue(name string) *Queue { return qs.byName[name] }

// Send puts an item into the queue of that name: see [Queue.Send].
func (qs *Queues) Send(ctx context.Context, queue string, item Item, delay time.Duration) error {
	q := qs.byName[queue]
	if q == nil {
		return fmt.Errorf("send %s: there is no queue %q", item.ID, queue)
	}
	return q.Send(ctx, item, delay)
}

// Waiting reports, with one request, whether a queue holds a message that could be received.
func (qs *Queues) Waiting(ctx context.Context, queue string) (bool, error) {
	q := qs.byName[queue]
	if q == nil {
		return false, fmt.Errorf("look at queue %q: there is no such queue", queue)
	}
	seen, err := q.Peek(ctx, 1)
	return len(seen) > 0, err
}

// Clear removes every message of a queue. With the name of a base queue it clears
// its other lanes too: see [Queue.Clear].
func (qs *Queues) Clear(ctx context.Context, queue string) error {
	for _, spec := range qs.specs {
		if spec.Name == queue || spec.Base() == queue {
			if err := qs.byName[spec.Name].Clear(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// List asks the service which queues of this stack exist, and returns their names in the
// account. Queues that only an older version declares are among them (paper row Q10).
func (qs *Queues) List(ctx context.Context) (found []string, _ error) {
	pager := qs.account.Queues.NewListQueuesPager(&azqueue.ListQueuesOptions{Prefix: new(qs.account.Name(""))})
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list queues: %w", err)
		}
		for _, q := range page.Queues {
			found = append(found, *q.Name)
		}
	}
	return found, nil
}
