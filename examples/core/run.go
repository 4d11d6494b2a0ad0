package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/runner"
	"github.com/cutroom/cutroom/shared/engine/upkeep"
	"github.com/cutroom/cutroom/shared/engine/workers"
)

// Main runs a product until the process is told to stop. Of a product "files" the settings are
//
//	FILES_ROLE     web, worker or both (default)
//	FILES_ADDR     of the web role; default 127.0.0.1:8090
//	FILES_PREFIX   of the names in storage; default: the product's name
//
// and those of azstore.ConfigFromEnv.
func Main[P any](product Product[P]) {
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if err := runFromEnv(ctx, product); err != nil {
		log.Fatal(err)
	}
}

func runFromEnv[P any](ctx context.Context, product Product[P]) error {
	name := strings.ToUpper(product.Name)
	config, bad := azstore.ConfigFromEnv(os.Getenv, name)
	// Two products of one account need prefixes: the janitor of each would remove the blobs of
	// the other.
	config.Prefix = cmp.Or(config.Prefix, product.Name[:min(len(product.Name), 11)])
	account, refused := azstore.Open(config)
	if err := errors.Join(bad, refused); err != nil {
		return err
	}
	role := cmp.Or(os.Getenv(name+"_ROLE"), "both")
	if role != "web" && role != "worker" && role != "both" {
		return fmt.Errorf("%s_ROLE is %q: use web, worker or both", name, role)
	}
	var listener net.Listener
	if role != "worker" {
		var err error
		if listener, err = net.Listen("tcp", cmp.Or(os.Getenv(name+"_ADDR"), "127.0.0.1:8090")); err != nil {
			return err
		}
		slog.Info("listening", "address", "http://"+listener.Addr().String()+"/"+product.Table)
	}
	return Open(account, product).Run(ctx, listener, role != "web")
}

// Run serves, if there is a listener, and works, if asked to, until ctx ends. What is not done
// then is given back. The message of a process that dies is delivered again, to any other.
func (s *Service[P]) Run(ctx context.Context, listener net.Listener, works bool) error {
	err := errors.Join(s.Queues.Ensure(ctx), s.Account.Ensure(ctx, azstore.Names{
		Containers: []string{engine.SourcesContainer, engine.MediaContainer},
		Tables:     []string{s.Table, engine.InflightTable, engine.IdempotencyTable, workers.Table, listTable},
	}))
	if err != nil {
		return err
	}
	roles, ctx := errgroup.WithContext(ctx) // when one ends, so does the other
	if listener != nil {
		roles.Go(func() error { return serve(ctx, listener, s.routes()) })
	}
	if works {
		roles.Go(func() error { return s.work(ctx) })
	}
	return roles.Wait()
}

// serve lets requests that run when ctx ends go on for a while.
func serve(ctx context.Context, listener net.Listener, routes http.Handler) error {
	server := &http.Server{Handler: routes, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if server.Shutdown(grace) != nil {
		return server.Close()
	}
	return nil
}

func (s *Service[P]) work(ctx context.Context) error {
	scratch, err := runner.MakeScratch(os.TempDir(), slog.Default())
	if err != nil {
		return err
	}
	defer func() { _ = scratch.Close() }()
	client := s.Queues.With(azq.Options{Handlers: s.handlers(scratch.Dir), Worker: s.name})
	leader := s.leader()
	var others sync.WaitGroup
	defer others.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop() // before it waits for them
	others.Go(func() { leader.Run(ctx) })
	host, _ := os.Hostname()
	self := workers.Worker{Name: s.name, Host: host, PID: os.Getpid(), StartedAt: time.Now().UTC()}
	others.Go(func() {
		upkeep.Heartbeat(ctx, s.register, func() workers.Worker {
			now := self.Doing(client)
			now.Leader = leader.Leading()
			return now
		}, slog.Default())
	})
	return client.Run(ctx)
}

func (s *Service[P]) handlers(scratch string) map[string]azq.Handler {
	handlers := map[string]azq.Handler{}
	for _, step := range s.Steps {
		run := step.Run
		if step.Stage == engine.First {
			run = planned(run)
		}
		handlers[step.Name] = &runner.Runner[Document, Plan[P]]{
			Store: s.Subjects, Blobs: s.Blobs, Step: run, Hooks: s.Hooks, Worker: s.name,
			Scratch: scratch, Watch: 5 * time.Second, Log: slog.Default(),
		}
	}
	return handlers
}

// planned is a first step that need not make a plan.
func planned[P any](run runner.StepFunc[Document, Plan[P]]) runner.StepFunc[Document, Plan[P]] {
	return func(ctx context.Context, w *Work[P]) (Commit[P], error) {
		commit, err := run(ctx, w)
		if err == nil && commit.Plan == nil {
			commit.Plan = new(Plan[P])
		}
		return commit, err
	}
}

// living lists the workers that are alive.
func (s *Service[P]) living(ctx context.Context) ([]workers.Worker, error) {
	return s.register.List(ctx, time.Now().Add(-upkeep.Alive))
}

// leader is the upkeep, which one process at a time does. The reconciler sends what was promised
// and is in no queue, and removes uploads that broke off; the janitor removes blobs that no row
// names. A worker that lost its message may write a little longer, so both wait.
func (s *Service[P]) leader() *upkeep.Leader {
	late := 30 * s.Pace
	reconciler := upkeep.Reconciler[Document, Plan[P]]{
		Store: s.Subjects, Queue: upkeep.StateIn(s.Queues), Workers: s.living, Log: slog.Default(), Grace: s.Pace,
		SweepAfter: late, CreateTimeout: time.Minute, OrphanAfter: 15 * time.Minute, AbandonAfter: 24 * time.Hour,
	}
	janitor := upkeep.Janitor[Document, Plan[P]]{Store: s.Subjects, Blobs: s.Blobs, Grace: late, Log: slog.Default()}
	return &upkeep.Leader{Blobs: s.Blobs, Log: slog.Default(), Peers: s.living, Duties: []upkeep.Duty{
		{Name: "reconcile", Every: s.Pace, Do: reconciler.Pass}, {Name: "janitor", Every: late, Do: janitor.Pass},
		{Name: "forget dead workers", Every: time.Hour, Do: func(ctx context.Context) (int, error) {
			return s.register.Forget(ctx, time.Now().Add(-24*time.Hour))
		}},
	}}
}
