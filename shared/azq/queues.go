package azq

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// queues is every queue of a client.
type queues struct {
	account *azstore.Account
	specs   []Spec
	byName  map[string]*Queue
	poison  *tablestore.Table

	lanes   laneLengths
	ensured atomic.Bool // once in this process
}

// Containers that the queues use. Names are completed with the stack's prefix.
const (
	ClaimsContainer  = "claims"  // claim checks (paper row Q9)
	ControlContainer = "control" // blob leases: of writers of policies, and of elected duties
)

var (
	containers = []string{ClaimsContainer, ControlContainer}
	tables     = []string{PoisonTable, DoorbellTable}
)

// openQueues opens the queues of the options with their lanes. It makes no request.
func openQueues(a *azstore.Account, o Options) *queues {
	specs := withLanes(o.Queues, o.Lanes)
	qs := &queues{account: a, byName: make(map[string]*Queue, len(specs)), poison: tablestore.New(a, PoisonTable)}
	qs.lanes.length = make([]int64, o.Lanes)
	qs.lanes.sent, _ = lru.New[string, sending](maxCustomers) // fails for a size below 1 only
	for _, spec := range specs {
		q := OpenQueue(a, spec) // which sets the spec's defaults
		if spec.lane > 0 {
			q.lead = qs.byName[spec.Base()].lead
			q.lead.lanes = append(q.lead.lanes, q)
		}
		qs.byName[spec.Name] = q
		qs.specs = append(qs.specs, q.spec)
	}
	return qs
}

// Ensure creates the queues and what else they need, if missing. Safe to repeat.
func (qs *queues) Ensure(ctx context.Context) error {
	there, err := qs.List(ctx) // one request instead of one for each queue
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(namesOf(qs.specs), func(name string) bool {
		return slices.Contains(there, qs.account.Name(name))
	})
	err = qs.account.Ensure(ctx, azstore.Names{Containers: containers, Queues: missing, Tables: tables})
	qs.ensured.Store(err == nil)
	return err
}

// Specs returns the declarations in their order, one for each lane.
func (qs *queues) Specs() []Spec { return qs.specs }

// Account returns the account of the queues.
func (qs *queues) Account() *azstore.Account { return qs.account }

// Queue returns a queue by its base name, or nil when there is none.
func (qs *queues) Queue(name string) *Queue { return qs.byName[name] }

// ErrNoQueue says that a client has no queue of that name.
var ErrNoQueue = errors.New("there is no such queue")

// Find returns a queue by its base name, or the poison queue of one, or [ErrNoQueue].
func (qs *queues) Find(name string) (*Queue, error) {
	base, _ := strings.CutSuffix(name, PoisonName(""))
	switch lead := qs.byName[base]; {
	case qs.byName[name] != nil:
		return qs.byName[name], nil
	case lead != nil && lead.spec.lane == 0: // the poison of other lanes goes there, too
		// Visibility is that of the queue: it is what a redriven item gets.
		return OpenQueue(qs.account, Spec{Name: name, Visibility: lead.spec.Visibility, found: true}), nil
	}
	return nil, fmt.Errorf("%w: %q", ErrNoQueue, name)
}

// Waiting reports, with one request, whether a queue holds a message that could be received.
func (qs *queues) Waiting(ctx context.Context, queue string) (bool, error) {
	q, err := qs.Find(queue)
	if err != nil {
		return false, err
	}
	seen, err := q.Peek(ctx, 1)
	return len(seen) > 0, err
}

// Clear removes every message of a queue. With the name of a base queue it clears
// its other lanes too: see [Queue.Clear].
func (qs *queues) Clear(ctx context.Context, queue string) error {
	q, err := qs.Find(queue)
	if err != nil {
		return err
	}
	if qs.byName[queue] == nil { // a poison queue
		return q.Clear(ctx)
	}
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
func (qs *queues) List(ctx context.Context) (found []string, _ error) {
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

// Discover opens every queue of the account's prefix, in order, for programs that operate queues
// which others declare. The account says what the queues are: a queue "mail-1" without a poison
// queue of its own is a lane of "mail" if that has one. It does not say what is in them or who
// works on them: kinds, pools and timeouts are empty, except a timeout that was published. What
// is sent is of the namespace; "" is [DefaultNamespace].
func Discover(ctx context.Context, a *azstore.Account, namespace string) (*Client, error) {
	there, err := (&queues{account: a}).List(ctx)
	if err != nil {
		return nil, err
	}
	exists := func(base string) bool { return slices.Contains(there, a.Name(base)) }
	slices.Sort(there) // a base queue comes before its lanes
	specs := []Spec{}  // not nil, which would mean a queue "default"
	for _, name := range there {
		spec := Spec{Name: strings.TrimPrefix(name, a.Prefix()), found: true}
		if base, isPoison := strings.CutSuffix(spec.Name, PoisonName("")); isPoison && exists(base) {
			continue
		}
		lane := laneOf.FindStringSubmatch(spec.Name)
		if lane != nil && exists(lane[1]) && exists(PoisonName(lane[1])) && !exists(PoisonName(spec.Name)) {
			spec.base = lane[1]
			spec.lane, _ = strconv.Atoi(lane[2]) // the pattern allows digits only
		}
		specs = append(specs, spec)
	}
	return Open(a, Options{Queues: specs, Namespace: namespace}), nil
}

// laneOf splits what [LaneName] makes.
var laneOf = regexp.MustCompile(`^(.+)-([1-9][0-9]{0,3})$`)
