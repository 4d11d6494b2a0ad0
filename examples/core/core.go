// Package core is a product on the engine that does not know what its files are. It takes
// uploads, runs the product's steps on them, lists, serves and deletes them, and shows operators
// queues, poison and workers. examples/files and examples/images are the core with their steps.
//
// core.go says what a product is; run.go starts it; web.go is what users and operators reach;
// list.go follows a subject in another table, and removes it.
//
// Cutroom's roles add what is missing: who may do what, quotas, metrics.
package core

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/runner"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
	"github.com/cutroom/cutroom/shared/engine/workers"
)

// Product is what the core has to know of a product. P is its part of a plan.
type Product[P any] struct {
	// Name begins its messages' types and, in capitals, its settings.
	Name string
	// Table of the subjects, and the first word of their addresses. Letters.
	Table string
	// Steps, in order. At least one. The core adds what is missing of a first and a last step,
	// and its own, index and purge, in the first queue. Names are stored: never change one.
	Steps []Step[P]
	// Queues carry the steps that name them: Kinds need not be set.
	Queues []azq.Spec
	// Accept says why an upload is not taken, to the client; nil takes everything.
	Accept func(Document) error
}

// Step is a step and the work that it is. What the work leaves as files and facts is shown.
type Step[P any] struct {
	engine.Step
	Run runner.StepFunc[Document, Plan[P]]
}

// Document is a subject: one partition of the product's table. What steps learn of a subject
// are their facts, so that a replaced generation keeps its own.
type Document struct {
	engine.Meta
	Name        string `json:"name"`
	ContentType string `json:"contentType"` // as the client said
}

// Plan says what is to be made. The first step makes it, and any worker can make any part of it.
type Plan[P any] struct {
	engine.Plan
	Runs map[engine.Count]int `json:"runs"` // of steps that run more than once
	Of   P                    `json:"of"`
}

// The engine's types, of the core.
type (
	Commit[P any] = engine.Commit[Document, Plan[P]]
	Work[P any]   = runner.Work[Document, Plan[P]]
)

// Service is a product on its account. Safe for concurrent use.
type Service[P any] struct {
	Product[P]
	Account  *azstore.Account
	Blobs    *blobstore.Store
	Queues   *azq.Client
	Subjects *engine.Store[Document, Plan[P]]

	// Pace is that of upkeep: longer than a promised message takes to its queue.
	Pace  time.Duration
	Hooks runner.Hooks[Document, Plan[P]] // none but in tests

	name     string // of this process
	list     *tablestore.Table
	register *workers.Register
}

// Open makes no request.
func Open[P any](account *azstore.Account, product Product[P]) *Service[P] {
	host, _ := os.Hostname()
	s := &Service[P]{
		Product: product, Account: account, Blobs: blobstore.New(account), Pace: 10 * time.Second,
		name: fmt.Sprintf("%s-%d", host, os.Getpid()), list: tablestore.New(account, listTable), register: workers.New(account),
	}
	s.Steps = s.completed()
	declared := s.Declaration()
	s.Queues = azq.Open(account, azq.Options{Namespace: declared.Name, Queues: declared.Queues})
	s.Subjects = engine.New(account, s.Queues, engine.Product[Document, Plan[P]]{
		Declaration: declared,
		Promises:    func(plan Plan[P]) []engine.Promise { return declared.PromisesFor(plan.Runs) },
	})
	return s
}

// completed are the product's steps and the core's.
func (s *Service[P]) completed() []Step[P] {
	own := func(name string, stage engine.Stage, run runner.StepFunc[Document, Plan[P]]) Step[P] {
		return Step[P]{engine.Step{Name: name, Stage: stage, Queues: []string{s.Product.Queues[0].Name}}, run}
	}
	lacks := func(stage engine.Stage) bool {
		return !slices.ContainsFunc(s.Steps, func(step Step[P]) bool { return step.Stage == stage })
	}
	nothing := func(context.Context, *Work[P]) (none Commit[P], _ error) { return none, nil }
	var steps []Step[P]
	if lacks(engine.First) {
		steps = append(steps, own("begin", engine.First, nothing))
	}
	steps = append(steps, s.Steps...)
	if lacks(engine.Last) {
		steps = append(steps, own("finish", engine.Last, nothing))
	}
	return append(steps, own("index", engine.OnChange, s.index), own("purge", engine.OnDelete, s.purge))
}

// Declaration is what the engine knows of the product: for enginetest.Check.
func (s *Service[P]) Declaration() engine.Declaration {
	d := engine.Declaration{Name: s.Name, Table: s.Table, Queues: slices.Clone(s.Product.Queues)}
	for _, step := range s.Steps {
		d.Steps = append(d.Steps, step.Step)
	}
	for i := range d.Queues {
		for _, step := range d.Steps {
			if slices.Contains(step.Queues, d.Queues[i].Name) {
				d.Queues[i].Kinds = append(slices.Clip(d.Queues[i].Kinds), step.Name)
			}
		}
	}
	return d
}

// CopyUpload writes the first parts of the upload, of 4 MiB each, to dst. What it returns of an
// upload that was replaced fails the subject for good.
func CopyUpload[P any](ctx context.Context, w *Work[P], dst io.Writer, parts int) error {
	from, err := sourceparts.Committed(ctx, w.Blobs, w.Subject.Meta)
	if err != nil {
		return err
	}
	for n := range min(parts, from.Layout.Count()) {
		part, err := from.Open(ctx, n, blobstore.Range{})
		if err == nil {
			_, err = io.Copy(dst, part)
			_ = part.Close()
		}
		if err != nil {
			return sourceparts.Changed(err)
		}
		w.Progress() // the lease of the message is renewed only while the work moves
	}
	return nil
}
