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

	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/load"
	"github.com/cutroom/cutroom/e2e/report"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/price"
	"github.com/cutroom/cutroom/shared/workflow"
)

// settle is how long workers are left alone before counting: pollers of empty
// queues slow down step by step to their longest pause.
const settle = 15 * time.Second

// idle counts every request that a web role and two workers without work send to
// their storage, and says what that costs.
func idle(ctx context.Context, b *bench) (result report.Section, _ error) {
	const workers = 2
	counter := &counter{seen: map[request]int{}}
	err := b.with(ctx, stack.Options{Workers: workers, Through: counter.stand}, func(s *stack.Stack, _ *journey.User) error {
		defer counter.Close()
		window := pick(b, 20*time.Second, 90*time.Second)
		b.say("settling for %v, then counting for %v", settle, window)
		load.Pause(ctx, settle)
		busy, web, azurite, err := meters(s)
		if err != nil {
			return err
		}
		before, began := counter.counts(), time.Now()
		load.Pause(ctx, window)
		after, took := counter.counts(), time.Since(began)
		busy2, web2, azurite2, err := meters(s)
		if err != nil {
			return err
		}
		percent := func(d time.Duration) float64 { return 100 * d.Seconds() / took.Seconds() }
		result.Rows = costs(before, after, took)
		result.Bounds = []report.Bound{polled(float64(after[looks]-before[looks]) / took.Minutes() / workers)}
		result.Notes = []string{
			fmt.Sprintf("one web role and two workers, %d queues; CPU of one core: Azurite %.1f %%, workers %.1f %% together, web role %.1f %%",
				len(workflow.Specs), percent(azurite2-azurite), percent(busy2-busy), percent(web2-web)),
			"prices of shared/price, 730 hours a month",
		}
		return ctx.Err()
	})
	return result, err
}

// polled compares the looks of one worker in a minute with those that its queues declare.
func polled(n float64) report.Bound {
	return report.Bound{Name: "looks for messages ÷ those that the queues declare", Value: n / declared(workflow.Specs).looks(), Target: 1.1, AtMost: true}
}

// polling is how many times a minute one worker without work asks its queues.
type polling struct {
	first   float64 // looks at lane 0 of every queue
	asleep  float64 // looks at the other lanes
	lengths float64 // length and policy
}

// looks are those for messages, in all lanes.
func (p polling) looks() float64 { return p.first + p.asleep }

// usd is what that costs in a month.
func (p polling) usd() float64 { return monthly(looks, p.looks()) + monthly(lengths, p.lengths) }

// declared is the polling that follows from the longest pauses of the queues. Real pauses
// are up to a fifth shorter, by chance, and never longer.
func declared(specs []azq.Spec) (p polling) {
	for _, spec := range specs {
		p.first += perMinute(cmp.Or(spec.MaxIdlePoll, 5*time.Second))
		p.lengths += perMinute(15 * time.Second)
		if spec.Laned {
			p.asleep += (azq.DefaultLanes - 1) * perMinute(azq.AsleepPoll)
		}
	}
	return p
}

func perMinute(pause time.Duration) float64 { return float64(time.Minute) / float64(pause) }

// monthly is the price of so many requests a minute, for a month of 730 hours.
func monthly(r request, perMinute float64) float64 {
	return price.Default.Per10000(r.kind) * perMinute * 60 * 730 / 10_000
}

// costs are the requests of a while, and their price in a month.
func costs(before, after map[request]int, took time.Duration) [][]string {
	rows := [][]string{{"requests", "per minute", "per month"}}
	sum, usd := 0.0, 0.0
	for _, r := range slices.SortedFunc(maps.Keys(after), func(a, b request) int { return cmp.Compare(a.label, b.label) }) {
		n := float64(after[r]-before[r]) / took.Minutes()
		if n == 0 {
			continue
		}
		sum, usd = sum+n, usd+monthly(r, n)
		rows = append(rows, []string{r.label, fmt.Sprintf("%.0f", n), fmt.Sprintf("%.2f USD", monthly(r, n))})
	}
	return append(rows, []string{"all", fmt.Sprintf("%.0f", sum), fmt.Sprintf("%.2f USD", usd)})
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

// What idle roles ask of queues and leases.
var (
	looks   = request{"queue: look for messages", "queue.write"}
	lengths = request{"queue: length and policy", "queue.read"}
	leases  = request{"blob: PUT lease", "blob.read"}
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
