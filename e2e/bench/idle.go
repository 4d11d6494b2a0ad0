package bench

import (
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
	"github.com/cutroom/cutroom/shared/azurite"
	"github.com/cutroom/cutroom/shared/workflow"
)

// settle is how long workers are left alone before counting: pollers of empty
// queues slow down step by step to one look in 5 s.
const settle = 15 * time.Second

// idle counts every request that a web role and two workers without work send to
// their storage, and says what that costs: the paper's advice to poll less often
// when there is nothing is about money.
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

	s, err := b.start(ctx, stack.Options{Workers: 2, ConnectionString: counter.connection})
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
	workers, web, _, err := meters(s)
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
	workers2, web2, _, err := meters(s)
	if err != nil {
		return Result{}, err
	}

	percent := func(d time.Duration) float64 { return 100 * d.Seconds() / took.Seconds() }
	return Result{
		Rows: costs(before, after, took, b.USDPer10000),
		Notes: []string{
			fmt.Sprintf("one web role and two workers, %d queues; CPU of one core: Azurite %.1f %%, workers %.1f %% together, web role %.1f %%",
				len(workflow.Specs), percent(cpu2-cpu), percent(workers2-workers), percent(web2-web)),
			fmt.Sprintf("assumes %g USD per 10,000 requests of any kind, 730 hours a month: change it with -price", b.USDPer10000),
		},
	}, nil
}

// costs are the requests of a while by kind, and their price in a month.
func costs(before, after map[string]int, took time.Duration, usdPer10000 float64) [][]string {
	const month = 730 * 60 // minutes
	cost := func(perMinute float64) string {
		return fmt.Sprintf("%.2f USD", perMinute*month/10_000*usdPer10000)
	}
	rows := [][]string{{"requests", "per minute", "per month"}}
	total := 0.0
	for _, kind := range slices.Sorted(maps.Keys(after)) {
		perMinute := float64(after[kind]-before[kind]) / took.Minutes()
		if perMinute == 0 {
			continue
		}
		total += perMinute
		rows = append(rows, []string{kind, fmt.Sprintf("%.0f", perMinute), cost(perMinute)})
	}
	return append(rows, []string{"all", fmt.Sprintf("%.0f", total), cost(total)})
}

// counter is a proxy in front of each of Azurite's services that counts.
type counter struct {
	connection string // of the storage behind the proxies
	servers    []*http.Server

	mu   sync.Mutex
	seen map[string]int // by service and what was asked
}

func startCounter(to *azurite.Server) (*counter, error) {
	c := &counter{seen: map[string]int{}}
	var ports []int
	for _, service := range []struct {
		name string
		port int
	}{{"blob", to.BlobPort}, {"queue", to.QueuePort}, {"table", to.TablePort}} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			c.stop()
			return nil, fmt.Errorf("listen in front of Azurite: %w", err)
		}
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
		target := &url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", service.port)}
		proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)} // whoever asked hears of it
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c.count(service.name + ": " + asked(service.name, r))
			proxy.ServeHTTP(w, r)
		})}
		c.servers = append(c.servers, server)
		go func() { _ = server.Serve(listener) }() // ends with stop
	}
	c.connection = azstorage.AzuriteConnectionString(ports[0], ports[1], ports[2])
	return c, nil
}

// asked names a request without the names in it.
func asked(service string, r *http.Request) string {
	comp := r.URL.Query().Get("comp")
	switch {
	case service == "queue" && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/messages"):
		return "look for messages"
	case service == "queue" && comp == "metadata":
		return "length and policy"
	case comp != "":
		return r.Method + " " + comp
	}
	return r.Method
}

func (c *counter) count(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[kind]++
}

func (c *counter) counts() map[string]int {
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
