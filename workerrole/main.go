// Command workerrole receives work items from the queues and runs their steps. Any
// number may run: they share nothing but the storage account (paper rows Q1 and Q4).
//
// First in the reading order (docs/design.md). Next: shared/video, the words of the domain.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/early"
	"github.com/cutroom/cutroom/shared/engine/runner"
	"github.com/cutroom/cutroom/shared/engine/upkeep"
	"github.com/cutroom/cutroom/shared/engine/workers"
	"github.com/cutroom/cutroom/shared/process"
	"github.com/cutroom/cutroom/shared/provision"
	"github.com/cutroom/cutroom/shared/tracing"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/workerrole/internal/admin"
	"github.com/cutroom/cutroom/workerrole/internal/failpoint"
	"github.com/cutroom/cutroom/workerrole/internal/feature/captions"
	"github.com/cutroom/cutroom/workerrole/internal/feature/clips"
	"github.com/cutroom/cutroom/workerrole/internal/feature/keys"
	"github.com/cutroom/cutroom/workerrole/internal/feature/loudness"
	"github.com/cutroom/cutroom/workerrole/internal/feature/preview"
	"github.com/cutroom/cutroom/workerrole/internal/feature/quotas"
	"github.com/cutroom/cutroom/workerrole/internal/feature/races"
	"github.com/cutroom/cutroom/workerrole/internal/feature/search"
	"github.com/cutroom/cutroom/workerrole/internal/feature/trail"
	"github.com/cutroom/cutroom/workerrole/internal/feature/twins"
	"github.com/cutroom/cutroom/workerrole/internal/feature/viewcount"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
	"github.com/cutroom/cutroom/workerrole/internal/sandbox"
	"github.com/cutroom/cutroom/workerrole/internal/step"
)

func main() {
	run := run
	run = tracing.Traced("workerrole", "WORKERROLE_NAME", run)
	process.Main("workerrole", "WORKERROLE_ADMIN_ADDR", defaultAdminAddr, run)
}

// run works until ctx ends, then releases its messages and returns.
func run(ctx context.Context, getenv func(string) string) error {
	cfg, err := loadConfig(getenv)
	if err = errors.Join(err, failpoint.Check()); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	return runWith(ctx, cfg)
}

func runWith(ctx context.Context, cfg config) error {
	log := slog.Default().With("worker", cfg.Name)
	log.Info("configuration", "config", cfg)
	measured := newMetrics(cfg.Queues)
	measured.storage.Configure(&cfg.Storage)
	account, err := azstore.Open(cfg.Storage)
	if err != nil {
		return err
	}
	defer account.CloseIdle()
	queues := azq.Open(account, azq.Options{Queues: cfg.Queues})
	held, err := openSandbox(cfg.Sandbox, log)
	if err != nil {
		return err
	}
	tool, err := ffmpeg.Open(ctx, held, cfg.FFmpeg, cfg.FFprobe)
	if err != nil {
		return err
	}
	needs := step.Needs{
		Videos: videostore.New(account, queues), Blobs: blobstore.New(account), Catalog: catalog.New(account),
		Tool: tool, Linger: cfg.PurgeLinger,
	}
	features := features(account, needs, cfg)
	if err := provision.Await(ctx, account, queues, step.Tables(features), cfg.AdminAddr); err != nil {
		return err
	}
	scratch, err := runner.MakeScratch(cfg.Scratch, log)
	if err != nil {
		return err
	}
	defer func() { _ = scratch.Close() }()
	r := &role{
		cfg: cfg, log: log, measured: measured, queues: queues, scratch: scratch, held: held,
		register: workers.New(account), features: features, Needs: needs,
	}
	r.Videos.Observer = videostore.Observer{Subject: measured.changed, Attempt: measured.attempt}
	r.hooks.Early = early.New(r.Videos, r.Blobs)
	preview.Add(&r.hooks, r.Videos, tool)
	work, err := r.consumer(step.All(needs, features))
	if err != nil {
		return err
	}
	return r.run(ctx, work, r.leader())
}

// features are those that this worker role has.
func features(account *azstore.Account, needs step.Needs, cfg config) []step.Feature {
	return []step.Feature{
		quotas.New(account, needs),
		search.New(account),
		races.New(account),
		viewcount.New(account, needs),
		twins.New(account, needs),
		loudness.New(needs),
		clips.New(needs),
		captions.New(),
		keys.New(account),
		trail.New(account, cfg.AuditLife),
	}
}

// openSandbox makes what holds ffmpeg, and says once what it cannot hold.
func openSandbox(mode sandbox.Mode, log *slog.Logger) (*sandbox.Sandbox, error) {
	held, err := sandbox.Open(mode)
	if err != nil {
		return nil, fmt.Errorf("WORKERROLE_SANDBOX is %s: %w", mode, err)
	}
	if len(held.Missing()) > 0 {
		log.Warn("ffmpeg runs with less around it than it should", "sandbox", mode, "ffmpeg", held.String())
	}
	if mode != sandbox.Off {
		err = sandbox.Hide()
	}
	return held, err
}

// role is a worker role: what its parts are made of.
type role struct {
	cfg      config
	log      *slog.Logger
	queues   *azq.Client
	measured *metrics
	held     *sandbox.Sandbox
	scratch  *runner.Scratch
	features []step.Feature
	register *workers.Register
	hooks    pipeline.Hooks
	step.Needs
}

func (r *role) consumer(steps map[string]pipeline.Step) (*azq.Client, error) {
	handlers := map[string]azq.Handler{}
	for name, s := range steps {
		handlers[name] = pipeline.New(pipeline.Runner{
			Blobs: r.Blobs, Worker: r.cfg.Name, Scratch: r.scratch.Dir, FreeSpace: r.cfg.ScratchFree, Watch: 5 * time.Second, Log: r.log,
			Hooks: runner.Hooks[video.Video, video.Plan]{CheckHost: r.checkHost, Delivered: r.measured.delivered},
		}, r.Videos, r.hooks, s)
	}
	work := r.queues.With(azq.Options{
		Handlers: handlers, Version: workflow.ItemVersion, Pools: r.cfg.Pools, Worker: r.cfg.Name, Log: r.log, Probes: r.probes(),
		FirstRetry: r.cfg.FirstRetry, MaxDependencyPause: r.cfg.MaxTroublePause,
		DrainTimeout: r.cfg.DrainTimeout,
	})
	if err := work.Check(); err != nil {
		return nil, fmt.Errorf("a step has its handler when it is declared in workflow.Steps and listed in step.All: %w", err)
	}
	return work, nil
}

func (r *role) leader() *upkeep.Leader {
	reconciler := upkeep.Reconciler[video.Video, video.Plan]{
		Store: r.Videos.Store, Grace: r.cfg.ReconcileGrace, OrphanAfter: 15 * time.Minute,
		CreateTimeout: time.Minute, AbandonAfter: r.cfg.AbandonAfter, SweepAfter: r.cfg.JanitorGrace,
		Log:   r.log,
		Queue: upkeep.StateIn(r.queues), Passed: r.measured.reconciled,
		Workers: r.living,
	}
	janitor := upkeep.Janitor[video.Video, video.Plan]{
		Store: r.Videos.Store, Blobs: r.Blobs, Grace: r.cfg.JanitorGrace,
		RequestLife: r.cfg.ClipLife,
		Named:       r.hooks.Named, Log: r.log,
	}
	leader := &upkeep.Leader{Blobs: r.Blobs, Log: r.log, Passed: r.measured.passed, Peers: r.living, Duties: []upkeep.Duty{
		{Name: "reconcile", Every: r.cfg.ReconcileEvery, Do: reconciler.Pass},
		{Name: "janitor", Every: r.cfg.JanitorEvery, Do: janitor.Pass},
		{Name: "forget dead workers", Every: time.Hour, Do: func(ctx context.Context) (int, error) {
			return r.register.Forget(ctx, time.Now().Add(-24*time.Hour))
		}},
	}}
	for _, f := range r.features {
		leader.Duties = append(leader.Duties, f.Duties...)
	}
	return leader
}

// living lists the workers that are alive, but for some without work.
func (r *role) living(ctx context.Context) ([]workers.Worker, error) {
	return r.register.List(ctx, time.Now().Add(-upkeep.Alive))
}

// run works until ctx ends, then drains.
func (r *role) run(ctx context.Context, work *azq.Client, leader *upkeep.Leader) error {
	note := "" // for operators, of a worker that is ready all the same
	if len(r.held.Missing()) > 0 {
		note = "ffmpeg is " + r.held.String()
	}
	host, _ := os.Hostname()
	self := workers.Worker{Name: r.cfg.Name, Host: host, PID: os.Getpid(), StartedAt: time.Now().UTC(), Pools: r.cfg.Pools}
	r.measured.show(work, leader.Leading, leader.Duties)
	server := &admin.Server{Instance: r.cfg.Instance, Token: r.cfg.AdminToken, Registry: r.measured.registry, Note: note, Ready: func(ctx context.Context) error {
		if err := work.Ready(); err != nil {
			return err
		}
		_, err := r.queues.Queue(workflow.Probe).Length(ctx)
		return err
	}}
	if err := server.Start(ctx, r.cfg.AdminAddr); err != nil {
		return err
	}
	r.log.Info("worker role is up", "admin", server.Addr(), "ffmpeg", r.Tool.Version, "sandbox", r.held.String())

	var duties sync.WaitGroup
	duties.Go(func() { leader.Run(ctx) })
	duties.Go(func() {
		upkeep.Heartbeat(ctx, r.register, func() workers.Worker {
			now := self.Doing(work)
			now.Leader = leader.Leading()
			return now
		}, r.log)
	})
	context.AfterFunc(ctx, func() { r.log.Info("draining: messages are given back") }) // not ready any more; the listener is closed below
	if err := work.Run(ctx); err != nil {
		return err // of a step that did not stop in time: its message was released
	}
	duties.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return server.Stop(last)
}

// probes check for the consumer's circuit breakers whether a dependency works: with one
// small write, because steps write. Of a queue only the length is read, because a
// message would cause work.
func (r *role) probes() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		string(azstore.Blobs): func(ctx context.Context) error {
			_, err := r.Blobs.Put(azstore.WithoutRetry(ctx), azq.ControlContainer, "probe", []byte(""), blobstore.Options{})
			return err
		},
		string(azstore.Tables): func(ctx context.Context) error {
			return r.register.Probe(azstore.WithoutRetry(ctx))
		},
		string(azstore.Queues): func(ctx context.Context) error {
			_, err := r.queues.Queue(workflow.Probe).Length(azstore.WithoutRetry(ctx))
			return err
		},
		azq.Disk: func(context.Context) error { return r.scratch.Probe(r.cfg.ScratchFree) },
		azq.Host: r.Tool.Check,
	}
}

// checkHost looks for trouble of this machine that a failed step may have met.
func (r *role) checkHost(ctx context.Context) error {
	if err := r.scratch.Probe(r.cfg.ScratchFree); err != nil {
		return err
	}
	return r.Tool.Check(ctx)
}
