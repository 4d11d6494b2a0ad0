// Command images makes three sizes of each image that is sent to it: another product on the
// engine of Cutroom, as small as it can be and whole. main.go says what a subject is and which
// steps there are, and starts it all; steps.go does the work; list.go is what follows a subject
// in another table, and what removes it; web.go is what users reach.
//
// Cutroom's roles add what is missing: who may do what, quotas, metrics, a register of workers.
package main

import (
	"cmp"
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/runner"
	"github.com/cutroom/cutroom/shared/engine/upkeep"
)

// Image is a subject: one partition of table "images".
type Image struct {
	engine.Meta   // the engine's part: state, generation, what steps left
	Name          string
	Width, Height int // pixels of the upload; 0 until it is inspected
}

// Plan says what is to be made. It is written once, so any worker can make any part of it.
type Plan struct {
	engine.Plan
	Sizes []Size
}

// Size is one picture to make.
type Size struct {
	Name          string
	Width, Height int // pixels
}

// perSize is the count of a step that runs once for each size of the plan.
const perSize engine.Count = "size"

// declared is what the engine knows of the product. Names of steps are stored: never change one.
// Short work does not wait behind long work (paper row Q5), and the message of a worker that was
// killed is hidden for as long as Visibility says (Q16a).
var declared = engine.Declaration{
	Name: "images", Table: "images",
	Steps: []engine.Step{
		{Name: "inspect", Stage: engine.First, Queues: []string{"light"}, Weight: 5},
		{Name: "resize", Stage: engine.Part, Count: perSize, Queues: []string{"heavy"}, Weight: 90},
		{Name: "finish", Stage: engine.Last, Queues: []string{"light"}, Weight: 5},
		{Name: "index", Stage: engine.OnChange, Queues: []string{"light"}},
		{Name: "purge", Stage: engine.OnDelete, Queues: []string{"light"}},
	},
	Queues: []azq.Spec{
		{Name: "light"},
		{Name: "heavy", Pool: "heavy", Kinds: []string{"resize"}, Visibility: 10 * time.Second},
	},
}

// The engine's types, of images.
type (
	commit = engine.Commit[Image, Plan]
	work   = runner.Work[Image, Plan]
	step   = runner.StepFunc[Image, Plan]
)

type product struct {
	account *azstore.Account
	blobs   *blobstore.Store
	queues  *azq.Client
	images  *engine.Store[Image, Plan]
	list    *tablestore.Table
	pace    time.Duration             // of upkeep: longer than a promised message takes to its queue
	hooks   runner.Hooks[Image, Plan] // none but in tests
}

func open(account *azstore.Account) *product {
	queues := azq.Open(account, azq.Options{Namespace: declared.Name, Queues: declared.Queues})
	promises := func(plan Plan) []engine.Promise {
		return declared.PromisesFor(map[engine.Count]int{perSize: len(plan.Sizes)})
	}
	return &product{
		account: account, blobs: blobstore.New(account), queues: queues, pace: 10 * time.Second,
		images: engine.New(account, queues, engine.Product[Image, Plan]{Declaration: declared, Promises: promises}),
		list:   tablestore.New(account, listTable),
	}
}

func main() {
	config, bad := azstore.ConfigFromEnv(os.Getenv, "IMAGES")
	// The engine names containers and tables. Two products of one account need prefixes: the
	// janitor of each would remove the blobs of the other.
	config.Prefix = cmp.Or(config.Prefix, "images")
	account, refused := azstore.Open(config)
	listener, taken := net.Listen("tcp", cmp.Or(os.Getenv("IMAGES_ADDR"), "127.0.0.1:8090"))
	err := errors.Join(bad, refused, taken)
	if err == nil {
		ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err = open(account).run(ctx, listener)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run serves, works and keeps up until ctx ends; what is not done then is given back. The message
// of a process that dies is delivered again, to any other.
func (p *product) run(ctx context.Context, listener net.Listener) error {
	scratch, err := runner.MakeScratch(os.TempDir())
	if err != nil {
		return err
	}
	defer func() { _ = scratch.Close() }()
	err = errors.Join(p.queues.Ensure(ctx), p.account.Ensure(ctx, azstore.Names{
		Containers: []string{engine.SourcesContainer, engine.MediaContainer},
		Tables:     []string{declared.Table, engine.InflightTable, engine.IdempotencyTable, listTable},
	}))
	if err != nil {
		return err
	}
	steps := map[string]step{"inspect": inspect, "resize": resize, "finish": finish, "index": p.index, "purge": p.purge}
	handlers := map[string]azq.Handler{}
	for name, run := range steps {
		handlers[name] = &runner.Runner[Image, Plan]{
			Store: p.images, Blobs: p.blobs, Step: run, Hooks: p.hooks,
			Scratch: scratch.Dir, Watch: 5 * time.Second, Log: slog.Default(),
		}
	}
	server := &http.Server{Handler: p.routes(), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { _ = server.Serve(listener) })
	others.Go(func() { p.leader().Run(ctx) })
	return p.queues.With(azq.Options{Handlers: handlers}).Run(ctx)
}

// leader is the upkeep, which one process at a time does. The reconciler sends what was promised
// and is in no queue, and removes uploads that broke off; the janitor removes blobs that no row
// names. A worker that lost its message may write a little longer, so both wait.
func (p *product) leader() *upkeep.Leader {
	late := 30 * p.pace
	reconciler := upkeep.Reconciler[Image, Plan]{
		Store: p.images, Blobs: p.blobs, Queue: upkeep.StateIn(p.queues), Log: slog.Default(), Grace: p.pace,
		SweepAfter: late, CreateTimeout: time.Minute, OrphanAfter: 15 * time.Minute, AbandonAfter: 24 * time.Hour,
	}
	janitor := upkeep.Janitor[Image, Plan]{Store: p.images, Blobs: p.blobs, Grace: late, Log: slog.Default()}
	return &upkeep.Leader{Blobs: p.blobs, Log: slog.Default(), Duties: []upkeep.Duty{
		{Name: "reconcile", Every: p.pace, Do: reconciler.Pass}, {Name: "janitor", Every: late, Do: janitor.Pass},
	}}
}
