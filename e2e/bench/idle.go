package bench

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/load"
	"github.com/cutroom/cutroom/e2e/report"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/price"
	"github.com/cutroom/cutroom/shared/workflow"
)

// idleFor is how long workers have been without work when their requests are counted: in the
// last part of that time.
const idleFor = 10 * time.Minute

// mostUSD is what an idle deployment may cost a month.
const mostUSD = 3.0

// idle counts every request that a web role and some workers without work send to their
// storage, says what that costs, and measures how soon they take up what comes then.
func idle(ctx context.Context, b *bench) (result report.Section, _ error) {
	fleets := pick(b, []int{2}, []int{1, 2, 20})
	rest, window := pick(b, 90*time.Second, idleFor), pick(b, 20*time.Second, 3*time.Minute)
	found := make([]idleFleet, len(fleets))
	group, ctx := errgroup.WithContext(ctx) // they do nothing most of the time
	for i, workers := range fleets {
		group.Go(func() (err error) {
			found[i], err = measureIdle(ctx, b, workers, rest, window)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return result, err
	}
	last, worst := found[len(found)-1], time.Duration(0)
	for _, f := range found {
		worst = max(worst, f.percentile(95))
	}
	result.Rows = costs(found)
	result.Bounds = []report.Bound{
		{
			Name:  fmt.Sprintf("an idle deployment of %d workers, USD a month", last.workers),
			Value: last.usd(), Target: mostUSD, AtMost: true,
		},
		{Name: "until an item is taken up, p95, worst of them", Value: worst.Seconds(), Target: 1, AtMost: true, Unit: " s"},
	}
	result.Notes = []string{
		fmt.Sprintf("a web role and workers, %d queues with all lanes, after %v without work", len(last.taken), rest),
		"taken up: one item for each queue, 3 s apart; prices of shared/price, 730 hours a month",
	}
	return result, nil
}

// idleFleet is what was measured of some workers.
type idleFleet struct {
	workers int
	asked   map[request]int
	during  time.Duration
	taken   []time.Duration // sorted: from the send until the message is a worker's
}

func (f idleFleet) perMinute(r request) float64 { return float64(f.asked[r]) / f.during.Minutes() }

func (f idleFleet) usd() (sum float64) {
	for r := range f.asked {
		sum += monthly(r, f.perMinute(r))
	}
	return sum
}

func (f idleFleet) percentile(p int) time.Duration { return f.taken[(len(f.taken)-1)*p/100] }

func measureIdle(ctx context.Context, b *bench, workers int, rest, window time.Duration) (f idleFleet, _ error) {
	counter := &counter{seen: map[request]int{}}
	options := stack.Options{Workers: workers, Through: counter.stand}
	err := b.with(ctx, options, func(s *stack.Stack, _ *journey.User) error {
		defer counter.Close()
		b.say("%d workers: idle for %v, counting for the last %v", workers, rest, window)
		load.Pause(ctx, rest-window)
		before, began := counter.counts(), time.Now()
		load.Pause(ctx, window)
		f = idleFleet{workers: workers, asked: counter.counts(), during: time.Since(began)}
		for r, n := range before {
			if f.asked[r] -= n; f.asked[r] == 0 {
				delete(f.asked, r)
			}
		}
		var err error
		f.taken, err = takeUp(ctx, s)
		return err
	})
	return f, err
}

// takeUp sends one item to each queue, about a video that does not exist, and measures how long
// each can be seen.
func takeUp(ctx context.Context, s *stack.Stack) (taken []time.Duration, _ error) {
	account, err := azstore.Open(azstore.Config{ConnectionString: s.ConnectionString()})
	if err != nil {
		return nil, err
	}
	defer account.CloseIdle()
	queues := azq.Open(account, azq.Options{Queues: workflow.Specs})
	for i, spec := range queues.Specs() {
		load.Pause(ctx, 3*time.Second+time.Duration(i*37)*time.Millisecond)
		item, err := azq.NewItem(spec.Kinds[0], string(engine.NewID()), fmt.Sprint("idle-", i), nil)
		if err != nil {
			return nil, err
		}
		sent := time.Now()
		if err := queues.SendItem(ctx, spec.Name, item, 0); err != nil {
			return nil, err
		}
		for seen := true; seen; load.Pause(ctx, 5*time.Millisecond) {
			if seen, err = queues.Waiting(ctx, spec.Name); err != nil {
				return nil, err
			}
		}
		taken = append(taken, time.Since(sent))
	}
	slices.Sort(taken)
	return taken, ctx.Err()
}

// monthly is the price of so many requests a minute, for a month of 730 hours.
func monthly(r request, perMinute float64) float64 {
	return price.Default.Per10000(r.kind) * perMinute * 60 * 730 / 10_000
}

// costs are the requests of each fleet in a minute, and their price in a month.
func costs(fleets []idleFleet) [][]string {
	heading, sum := []string{"requests a minute, and USD a month"}, []string{"all"}
	p50, p95 := []string{"taken up after, p50"}, []string{"taken up after, p95"}
	all := map[request]bool{}
	for _, f := range fleets {
		heading = append(heading, fmt.Sprintf("workers: %d", f.workers))
		minute := 0.0
		for r := range f.asked {
			all[r] = true
			minute += f.perMinute(r)
		}
		sum = append(sum, fmt.Sprintf("%.0f: %.2f", minute, f.usd()))
		p50 = append(p50, fmt.Sprintf("%.2f s", f.percentile(50).Seconds()))
		p95 = append(p95, fmt.Sprintf("%.2f s", f.percentile(95).Seconds()))
	}
	rows := [][]string{heading}
	for _, r := range slices.SortedFunc(maps.Keys(all), func(a, b request) int { return cmp.Compare(a.label, b.label) }) {
		row := []string{r.label}
		for _, f := range fleets {
			row = append(row, fmt.Sprintf("%.0f: %.2f", f.perMinute(r), monthly(r, f.perMinute(r))))
		}
		rows = append(rows, row)
	}
	return append(rows, sum, p50, p95)
}

// counter stands before the storage and counts requests.
type counter struct {
	*inject.Way

	mu   sync.Mutex
	seen map[request]int
}

// request is what was asked, in words, and what it is billed as.
type request struct {
	label string
	kind  azstore.RequestKind
}

// What idle roles ask of queues, leases and doorbells.
var (
	looks   = request{"queue: look for messages", "queue.write"}
	lengths = request{"queue: length and policy", "queue.read"}
	leases  = request{"blob: PUT lease", "blob.read"}
	bells   = request{"table: GET doorbells", "table.list"}
)

// stand is for stack.Options.Through.
func (c *counter) stand(connection string) (_ string, err error) {
	c.Way, err = inject.Open(connection, func(service azstore.Service, next http.RoundTripper) http.RoundTripper {
		return &counted{c, service, next}
	})
	if err != nil {
		return "", err
	}
	return c.ConnectionString(), nil
}

// counted is the way to one service.
type counted struct {
	*counter
	service azstore.Service
	next    http.RoundTripper
}

// RoundTrip counts a request and sends it on.
func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.count(request{string(c.service) + ": " + asked(c.service, r), azstore.Classify(c.service, r)})
	return c.next.RoundTrip(r)
}

// asked names a request without the names in it.
func asked(service azstore.Service, r *http.Request) string {
	comp := r.URL.Query().Get("comp")
	switch {
	case service == azstore.Queues && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/messages"):
		return "look for messages"
	case service == azstore.Queues && comp == "metadata":
		return "length and policy"
	case comp != "":
		return r.Method + " " + comp
	case service == azstore.Tables && strings.Contains(r.URL.Path, azq.DoorbellTable):
		return r.Method + " doorbells"
	}
	return r.Method
}

func (c *counter) count(r request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[r]++
}

func (c *counter) counts() map[request]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.seen)
}
