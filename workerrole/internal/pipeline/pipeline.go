// Package pipeline is package engine/runner for videos: their steps read an upload with ffmpeg.
//
// Next: workerrole/internal/step, the steps themselves.
package pipeline

import (
	"context"
	"time"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/runner"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/workerrole/internal/failpoint"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
)

// Step is the work that a message asks for: see runner.Step. To add one, declare it in
// workflow.Steps, write a file in package step and list it in step.All.
type Step interface {
	Run(ctx context.Context, w *Work) (videostore.Commit, error)
}

// Work is what a step works with: see runner.Work.
type Work struct {
	*runner.Work[video.Video, video.Plan]
	early Early
}

// Replace stores a local file and puts the name of its blob in the place of its own, if it has
// one: package media says where files are in the members that name blobs.
func (w *Work) Replace(ctx context.Context, file *string, contentType string) error {
	if *file == "" {
		return nil
	}
	stored, err := w.Put(ctx, *file, contentType)
	*file = stored.Blob
	return err
}

// Runner runs a step of videos.
type Runner = runner.Runner[video.Video, video.Plan]

// Early lets steps run on an upload that is still going on: package early.
type Early interface {
	runner.Early
	// Open opens the file that is being sent. moved says when the run last made progress.
	Open(ctx context.Context, v video.Video, step engine.Step, moved func() time.Time) (sourceparts.Source, error)
}

// Hooks are what features add to all steps. A nil one adds nothing.
type Hooks struct {
	Early Early
	// Before is that of runner.Hooks.
	Before func(ctx context.Context, w *Work) (done bool, err error)
	// Named is that of upkeep.Janitor.
	Named func(v videostore.View, generation int) ([]string, error)
}

// New returns r with a step of videos.
func New(r Runner, videos *videostore.Store, hooks Hooks, step Step) *Runner {
	r.Store, r.Step = videos.Store, videoStep{step, hooks.Early}
	r.Hooks.At, r.Hooks.Programs, r.Hooks.Early = failpoint.Hit, countPrograms, hooks.Early
	if hooks.Before != nil {
		r.Hooks.Before = func(ctx context.Context, w *runner.Work[video.Video, video.Plan]) (bool, error) {
			return hooks.Before(ctx, &Work{w, hooks.Early})
		}
	}
	return &r
}

// videoStep runs a step of videos as one of the engine.
type videoStep struct {
	step  Step
	early Early
}

// Run implements runner.Step.
func (s videoStep) Run(ctx context.Context, w *runner.Work[video.Video, video.Plan]) (videostore.Commit, error) {
	ffmpeg.RunsOf(ctx).Nice = niceness(w.Subject.Meta, w.Queue) // programs give way to more urgent ones
	return s.step.Run(ctx, &Work{w, s.early})
}

// countPrograms counts what ffmpeg spends.
func countPrograms(ctx context.Context, moved func()) (context.Context, func() runner.Programs) {
	ctx, runs := ffmpeg.WithRuns(ctx)
	runs.Moved = moved
	return ctx, runs.Usage
}

// niceness is how far the programs of an item step back: as its queue says, and as far as
// bulk for all work of a channel that sent much while others waited.
func niceness(m engine.Meta, queue string) int {
	if m.Bulk {
		return workflow.BulkNice
	}
	return workflow.Niceness[queue]
}
