// Command workerrole receives work items from the queues and runs their steps. Any
// number may run: they share nothing but the storage account (paper rows Q1 and Q4).
//
// Next in the reading order: shared/workqueue/consumer, how a message is received, its
// lease renewed, and settled.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/product"
	"github.com/cutroom/cutroom/shared/provision"
	"github.com/cutroom/cutroom/shared/registrations"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/twins"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/views"
	"github.com/cutroom/cutroom/shared/workers"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/shared/workqueue"
	"github.com/cutroom/cutroom/shared/workqueue/consumer"
	"github.com/cutroom/cutroom/workerrole/internal/admin"
	"github.com/cutroom/cutroom/workerrole/internal/failpoint"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
	"github.com/cutroom/cutroom/workerrole/internal/media"
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
	"github.com/cutroom/cutroom/workerrole/internal/step"
	"github.com/cutroom/cutroom/workerrole/internal/upkeep"
)

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{ReplaceAttr: azstorage.RedactAttr})))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv)
	stop()
	if err != nil {
		slog.Error("workerrole stopped", "error", err)
		os.Exit(1)
	}
}

// run is main without the process: it works until ctx ends, then releases its messages
// and returns.
func run(ctx context.Context, getenv func(string) string) error {
	cfg, err := loadConfig(getenv)
	if err = errors.Join(product.CheckSettings(os.Environ()), err, failpoint.Check()); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	return runWith(ctx, cfg)
}

func runWith(ctx context.Context, cfg config) error {
	log := slog.Default().With("worker", cfg.Name)
	log.Info("configuration", "config", cfg)

	account, err := azstorage.Open(cfg.Storage)
	if err != nil {
		return err
	}
	defer account.CloseIdle()
	if err := workflow.Check(cfg.Queues); err != nil {
		return err
	}
	queues := workqueue.OpenAll(account, cfg.Queues)
	if err := provision.Ensure(ctx, account, queues); err != nil {
		return err
	}
	tool, err := ffmpeg.Open(ctx, cfg.FFmpeg, cfg.FFprobe)
	if err != nil {
		return err
	}
	scratch, err := pipeline.MakeScratch(cfg.Scratch)
	if err != nil {
		return err
	}
	defer func() { _ = scratch.Close() }()

	var (
		blobs     = blobstore.New(account)
		videos    = videostore.New(account, queues)
		listing   = catalog.New(account)
		search    = searchindex.New(account)
		races     = registrations.New(account)
		counter   = views.New(account)
		originals = twins.New(account)
	)
	// The steps, in the order in which they run for a video.
	steps := []pipeline.Step{
		step.Probe{Tool: tool, Limits: media.DefaultLimits},
		step.Encode{Tool: tool},
		step.Audio{Videos: videos, Tool: tool},
		step.Digest{Videos: videos, Twins: originals, Tool: tool},
		step.Finish{Videos: videos, Blobs: blobs, Tool: tool},
		step.Loudness{Tool: tool},
		step.Clip{Videos: videos, Blobs: blobs, Tool: tool},
		step.Captions{},
		step.Index{Videos: videos, Catalog: listing, Search: search, Races: races},
		step.Purge{Videos: videos, Blobs: blobs, Catalog: listing, Search: search, Races: races, Views: counter, Twins: originals, Linger: cfg.PurgeLinger},
	}
	handlers := map[string]consumer.Handler{}
	for _, s := range steps {
		if _, declared := workflow.Find(s.Name()); !declared {
			return fmt.Errorf("step %q is listed in workerrole/main.go: declare it in workflow.Steps", s.Name())
		}
		handlers[s.Name()] = &pipeline.Runner{Videos: videos, Blobs: blobs, Step: s, Worker: cfg.Name, Scratch: scratch.Dir, Watch: 5 * time.Second, Log: log}
	}
	for _, declared := range workflow.Steps {
		if handlers[declared.Name] == nil {
			return fmt.Errorf("workflow.Steps declares %q: list its step in workerrole/main.go", declared.Name)
		}
	}
	register := workers.New(account)
	work, err := consumer.New(queues, consumer.Options{
		Handlers: handlers, Version: workflow.ItemVersion, Pools: cfg.Pools, Worker: cfg.Name, Log: log, Probes: probes(scratch.Dir, blobs, register, queues),
		FirstRetry: cfg.FirstRetry, MaxTroublePause: cfg.MaxTroublePause,
	})
	if err != nil {
		return err
	}

	reconciler := upkeep.Reconciler{
		Videos: videos, Budget: cfg.ReconcileEvery, Grace: cfg.ReconcileGrace, OrphanAfter: 15 * time.Minute,
		AbandonAfter: cfg.AbandonAfter, SweepAfter: cfg.JanitorGrace, Log: log,
		Queue: func(ctx context.Context, name string) (upkeep.QueueState, error) {
			return upkeep.StateOf(ctx, queues.Queue(name))
		},
		Workers: func(ctx context.Context) ([]workers.Worker, error) {
			return register.List(ctx, time.Now().Add(-upkeep.Alive))
		},
	}
	janitor := upkeep.Janitor{Videos: videos, Blobs: blobs, Budget: cfg.JanitorEvery, Grace: cfg.JanitorGrace, ClipLife: cfg.ClipLife, Log: log}
	leader := &upkeep.Leader{Blobs: blobs, Log: log, Duties: []upkeep.Duty{
		{Name: "reconcile", Every: cfg.ReconcileEvery, Do: reconciler.Pass},
		{Name: "janitor", Every: cfg.JanitorEvery, Do: janitor.Pass},
		{Name: "sum views", Every: 10 * time.Minute, Do: func(ctx context.Context) (upkeep.Pass, error) {
			return upkeep.Pass{}, counter.RollUp(ctx, time.Now(), videos.Exists)
		}},
		{Name: "forget dead workers", Every: time.Hour, Do: func(ctx context.Context) (upkeep.Pass, error) {
			return upkeep.Pass{}, register.Forget(ctx, time.Now().Add(-24*time.Hour))
		}},
	}}

	status := newStatus(cfg, work, leader)
	server := &admin.Server{Instance: cfg.Instance, Token: cfg.AdminToken, Registry: status.registry(), Ready: func(ctx context.Context) error {
		if err := work.Ready(); err != nil {
			return err
		}
		_, err := queues.Queue(workflow.Probe).Length(ctx)
		return err
	}}
	if err := server.Start(ctx, cfg.AdminAddr); err != nil {
		return err
	}
	log.Info("worker role is up", "admin", server.Addr(), "ffmpeg", tool.Version)

	var duties sync.WaitGroup
	duties.Go(func() { leader.Run(ctx) })
	duties.Go(func() { upkeep.Heartbeat(ctx, register, status.worker, log) })
	duties.Go(func() { sweepScratch(ctx, scratch, log) })
	drained := make(chan struct{})
	go func() {
		work.Run(ctx)
		duties.Wait()
		close(drained)
	}()
	<-ctx.Done()
	server.Drain() // not ready any more; the listener is closed below
	log.Info("draining: messages are given back")
	select {
	case <-drained:
	case <-time.After(cfg.DrainTimeout):
		return errors.New("a step did not stop in time; its message comes back when its lease ends")
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return server.Stop(last)
}

// sweepScratch removes what killed workers left on this disk, now and every hour. Every
// worker does it, because no other may see its disk.
func sweepScratch(ctx context.Context, scratch *pipeline.Scratch, log *slog.Logger) {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		removed, err := scratch.Sweep()
		if err != nil {
			log.Warn("sweep scratch", "error", err)
		}
		if removed > 0 {
			log.Info("removed scratch directories of killed workers", "count", removed)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// probes check for the consumer's circuit breakers whether a dependency works: with one
// small write, because steps write. Of a queue only the length is read, because a
// message would be work for somebody.
func probes(scratch string, blobs *blobstore.Store, register *workers.Register, queues *workqueue.Queues) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		string(azstorage.Blobs): func(ctx context.Context) error {
			_, err := blobs.Put(azstorage.WithoutRetry(ctx), video.ControlContainer, "probe", strings.NewReader(""), 0, blobstore.Options{})
			return err
		},
		string(azstorage.Tables): func(ctx context.Context) error {
			return register.Probe(azstorage.WithoutRetry(ctx))
		},
		string(azstorage.Queues): func(ctx context.Context) error {
			_, err := queues.Queue(workflow.Probe).Length(azstorage.WithoutRetry(ctx))
			return err
		},
		workqueue.Disk: func(context.Context) error { return pipeline.ProbeScratch(scratch) },
	}
}
