package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/price"
	"github.com/cutroom/cutroom/shared/testkit/azurite"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/shared/workqueue"
	"github.com/cutroom/cutroom/shared/workqueue/consumer"
)

// settle is how long workers are left alone before counting: pollers of empty
// queues slow down step by step to their longest pause.
const settle = 15 * time.Second

// idle counts every request that a web role and two workers without work send to
// their storage, and says what that costs.
func idle(ctx context.Context, b *bench) (Result, error) {
	dir, err := os.MkdirTemp("", "cutroom-bench-azurite-")
	if err != nil {
		return Result{}, fmt.Errorf("make a folder for Azurite: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	emulator, err := azurite.Start(ctx, azurite.Options{Dir: dir})
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = emulator.Stop() }()
	counter, err := startCounter(emulator)
	if err != nil {
		return Result{}, err
	}
	defer counter.stop()

	const workers = 2
	s, err := b.start(ctx, stack.Options{Workers: workers, ConnectionString: counter.connection})
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = s.Stop() }()
	window := pick(b, 20*time.Second, 90*time.Second)
	b.say("settling for %v, then counting for %v", settle, window)
	if err := sleep(ctx, settle); err != nil {
		return Result{}, err
	}
	cpu, err := cpuTime(emulator.PID())
	if err != nil {
		return Result{}, err
	}
	busy, web, _, err := meters(s)
	if err != nil {
		return Result{}, err
	}
	before, began := counter.counts(), time.Now()
	if err := sleep(ctx, window); err != nil {
		return Result{}, err
	}
	after, took := counter.counts(), time.Since(began)
	cpu2, err := cpuTime(emulator.PID())
	if err != nil {
		return Result{}, err
	}
	busy2, web2, _, err := meters(s)
	if err != nil {
		return Result{}, err
	}
	percent := func(d time.Duration) float64 { return 100 * d.Seconds() / took.Seconds() }
	return Result{
		Rows:   costs(before, after, took),
		Ratios: []Ratio{polled(float64(after[looks]-before[looks]) / took.Minutes() / workers)},
		Notes: []string{
			fmt.Sprintf("one web role and two workers, %d queues; CPU of one core: Azurite %.1f %%, workers %.1f %% together, web role %.1f %%",
				len(workflow.Specs), percent(cpu2-cpu), percent(busy2-busy), percent(web2-web)),
			"prices of shared/price, 730 hours a month",
		},
	}, nil
}

// polled compares the looks of one worker in a minute with those that its queues declare.
func polled(n float64) Ratio {
	return Ratio{Name: "looks for messages ÷ those that the queues declare", Value: n / declared(workflow.Specs).looks(), Target: 1.1, AtMost: true}
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
func declared(specs []workqueue.Spec) (p polling) {
	for _, spec := range specs {
		p.first += perMinute(cmp.Or(spec.MaxIdlePoll, 5*time.Second))
		p.lengths += perMinute(15 * time.Second)
		if spec.Laned {
			p.asleep += (workqueue.Lanes - 1) * perMinute(consumer.AsleepPoll)
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
	for _, r := range slices.SortedFunc(maps.Keys(after), func(a, b request) int { return cmp.Compare(a.what, b.what) }) {
		n := float64(after[r]-before[r]) / took.Minutes()
		if n == 0 {
			continue
		}
		sum, usd = sum+n, usd+monthly(r, n)
		rows = append(rows, []string{r.what, fmt.Sprintf("%.0f", n), fmt.Sprintf("%.2f USD", monthly(r, n))})
	}
	return append(rows, []string{"all", fmt.Sprintf("%.0f", sum), fmt.Sprintf("%.2f USD", usd)})
}

// counter is a proxy in front of each of Azurite's services that counts.
type counter struct {
	connection string // of the storage behind the proxies
	servers    []*http.Server

	mu   sync.Mutex
	seen map[request]int
}

// request is what was asked, in words, and what it is billed as.
type request struct {
	what string
	kind azstorage.RequestKind
}

// What idle roles ask of queues and leases.
var (
	looks   = request{"queue: look for messages", "queue.write"}
	lengths = request{"queue: length and policy", "queue.read"}
	leases  = request{"blob: PUT lease", "blob.read"}
)

func startCounter(to *azurite.Server) (*counter, error) {
	c := &counter{seen: map[request]int{}}
	var ports []int
	for _, service := range []struct {
		name azstorage.Service
		port int
	}{{azstorage.Blobs, to.BlobPort}, {azstorage.Queues, to.QueuePort}, {azstorage.Tables, to.TablePort}} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			c.stop()
			return nil, fmt.Errorf("listen in front of Azurite: %w", err)
		}
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
		target := &url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", service.port)}
		proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)} // the client hears of it
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c.count(request{string(service.name) + ": " + asked(service.name, r), azstorage.Classify(service.name, r)})
			proxy.ServeHTTP(w, r)
		})}
		c.servers = append(c.servers, server)
		go func() { _ = server.Serve(listener) }() // ends with stop
	}
	c.connection = azstorage.AzuriteConnectionString(ports[0], ports[1], ports[2])
	return c, nil
}

// asked names a request without the names in it.
func asked(service azstorage.Service, r *http.Request) string {
	comp := r.URL.Query().Get("comp")
	switch {
	case service == azstorage.Queues && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/messages"):
		return "look for messages"
	case service == azstorage.Queues && comp == "metadata":
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

func (c *counter) stop() {
	var errs []error
	for _, server := range c.servers {
		errs = append(errs, server.Close())
	}
	_ = errors.Join(errs...) // listeners on loopback: nothing is lost
}
