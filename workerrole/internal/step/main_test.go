package step_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
	"github.com/cutroom/cutroom/workerrole/internal/step"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

// worker has the two steps that keep the indexes, as a worker role has them.
type worker struct {
	index step.Index
	purge step.Purge
}

func newWorker(a *azstore.Account, box *enginetest.Mailbox) worker {
	needs := step.Needs{Videos: videostore.New(a, box), Blobs: blobstore.New(a), Catalog: catalog.New(a)}
	return worker{index: step.Index{Needs: needs}, purge: step.Purge{Needs: needs}}
}

func (w worker) runner(s pipeline.Step) *pipeline.Runner {
	return pipeline.New(pipeline.Runner{Blobs: w.purge.Blobs, Log: slog.Default()}, w.index.Videos, pipeline.Hooks{}, s)
}

func (w worker) handle(ctx context.Context, item azq.Item) error {
	job := &azq.RawJob{Item: item, Delivery: azq.Delivery{DequeueCount: 1}}
	if item.Kind == workflow.StepPurge {
		return w.runner(w.purge).Handle(ctx, job)
	}
	return w.runner(w.index).Handle(ctx, job)
}
