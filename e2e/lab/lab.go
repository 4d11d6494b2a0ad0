// Package lab injects faults into the stack of `make demo` and `make up`: it
// kills, freezes and stops workers, slows or breaks the storage, delivers messages
// twice and uploads many videos, when a button on the board is pressed.
//
//	http.go       routes, token, problems
//	workers.go    kill, freeze, stop, add and remove
//	storage.go    the faults of package inject
//	duplicate.go  a message twice
//	burst.go      twenty videos
//	scenes.go     the scenes of package scenes, for the page
//	autoscale.go  as many workers as the queues want
//
// The faults live in the process that started the stack, because it holds the
// processes and stands before the storage. The web role only passes requests on, and
// knows where by a variable that no other program sets. Every fault ends by itself.
//
// docs/lab.md says what there is to see. Next: workers.go.
package lab

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/engine/workers"
	"github.com/cutroom/cutroom/shared/workflow"
)

// Variable tells the web role where the lab is, with the token as a password.
const Variable = "CUTROOM_LAB"

// Bounds of what can be done.
const (
	MaxWorkers = 8
	MaxVideos  = 20 // of one burst

	maxFreeze      = 10 * time.Minute
	maxFault       = 2 * time.Minute
	armedFor       = time.Minute // the next message is duplicated
	usualFault     = 20 * time.Second
	usualShare     = 0.5
	leastShare     = 0.01
	keptDuplicates = 10
)

// Start starts a supervised stack as stack.Start does, with a lab that its web roles
// know, and a proxy before its storage. The lab ends with the stack.
func Start(ctx context.Context, o stack.Options) (*stack.Stack, error) {
	b, err := open()
	if err != nil {
		return nil, err
	}
	return b.startStack(ctx, o)
}

// startStack starts the stack that the bench is for, and ends with it.
func (b *bench) startStack(ctx context.Context, o stack.Options) (*stack.Stack, error) {
	o.Supervise = true
	o.WebEnv = append(slices.Clone(o.WebEnv), Variable+"=http://lab:"+b.token+"@"+b.listener.Addr().String())
	o.Through, o.Stopping, o.Stopped = b.stand, b.calm, b.close
	follows := o.MaxWorkers > o.Workers
	if follows {
		o.Env = slices.Concat(o.Env, scaleTargets(o))
	}
	o.MaxWorkers = 0 // it is for the bench to add workers
	s, err := stack.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := b.attach(s); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	if follows {
		b.begin(b.follow)
	}
	return s, nil
}

// bench is what the handlers work on. It is safe for concurrent use.
type bench struct {
	token    string
	listener net.Listener
	server   *http.Server
	proxy    *inject.Proxy // set by stand

	background context.Context // ends with calm
	cancel     context.CancelFunc
	tasks      sync.WaitGroup

	ready   chan struct{} // closed when what follows is set
	stack   *stack.Stack
	cfg     azstore.Config   // past the proxy
	account *azstore.Account // of cfg
	queues  *azq.Client
	workers *workers.Register

	mu       sync.Mutex
	calming  bool
	frozen   map[string]frozen
	stays    map[string]bool // stopped, until a worker is added
	changing bool            // a worker is being added
	faults   map[azstore.Service]fault
	armed    time.Time // until when the next message is duplicated
	twice    []client.LabDuplicated
	burst    *client.LabBurstState
}

func open() (*bench, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open the lab: %w", err)
	}
	b := &bench{
		token: rand.Text(), listener: listener, ready: make(chan struct{}),
		frozen: map[string]frozen{}, stays: map[string]bool{}, faults: map[azstore.Service]fault{},
	}
	b.background, b.cancel = context.WithCancel(context.Background())
	b.server = &http.Server{Handler: b.routes(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	go func() { _ = b.server.Serve(listener) }()
	return b, nil
}

// stand puts the proxy before the storage. It draws nothing that a user would want
// to see again: the seed is fixed.
func (b *bench) stand(connection string) (string, error) {
	proxy, err := inject.Start(connection, 1)
	if err != nil {
		return "", err
	}
	b.proxy = proxy
	return proxy.ConnectionString(), nil
}

// attach opens the storage as the roles do, but past the proxy, and lets the handlers
// begin.
func (b *bench) attach(s *stack.Stack) error {
	cfg, err := azstore.ConfigFromEnv(func(name string) string {
		if name == "AZURE_STORAGE_CONNECTION_STRING" {
			return s.ConnectionString()
		}
		return s.Getenv(name)
	}, "CUTROOM")
	if err != nil {
		return fmt.Errorf("open the lab: %w", err)
	}
	specs, err := workflow.WithVisibility(s.Getenv("CUTROOM_VISIBILITY"))
	if err != nil {
		return fmt.Errorf("open the lab: %w", err)
	}
	if b.account, err = azstore.Open(cfg); err != nil {
		return fmt.Errorf("open the lab: %w", err)
	}
	b.cfg = cfg
	b.stack, b.queues, b.workers = s, azq.Open(b.account, azq.Options{Queues: specs}), workers.New(b.account)
	close(b.ready)
	return nil
}

// calm ends whatever was begun, and answers nothing more.
func (b *bench) calm() {
	b.mu.Lock()
	b.calming = true
	b.mu.Unlock()
	_ = b.server.Close()
	b.cancel()
	if b.proxy != nil {
		b.proxy.Calm()
	}
	b.tasks.Wait()
}

func (b *bench) close() {
	if b.proxy != nil {
		b.proxy.Close()
	}
	if b.account != nil {
		b.account.CloseIdle()
	}
}

// begin runs a task that calm waits for. It does nothing once the lab is being
// closed: a worker that were started then would outlive the stack.
func (b *bench) begin(task func(context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.calming {
		b.tasks.Go(func() { task(b.background) })
	}
}

// wait returns false when the lab is being closed.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
