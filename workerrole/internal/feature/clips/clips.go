// Package clips makes clips of videos.
package clips

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
	"github.com/cutroom/cutroom/workerrole/internal/media"
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
	"github.com/cutroom/cutroom/workerrole/internal/step"
)

// New returns the feature.
func New(n step.Needs) step.Feature {
	return step.Feature{Steps: map[string]pipeline.Step{workflow.StepClip: clip{n}}}
}

// clip makes a short MP4 of a range of frames of a finished video.
//
//	Reads   the segments that hold those frames: top rendition and audio
//	Writes  media/{attempt}/clip.mp4
//	Next    nothing
//	Errors  *engine.Failure when those segments are gone; the clip fails, the
//	        video does not
//	Repeat  writes to a name of its own; only one attempt's row commits
type clip struct{ step.Needs }

// Run implements pipeline.Step.
func (s clip) Run(ctx context.Context, w *pipeline.Work) (videostore.Commit, error) {
	job, err := s.gather(ctx, w)
	if errors.Is(err, blobstore.ErrNotFound) {
		err = engine.Fail(engine.ProcessingFailed, "The video was processed anew before the clip was made. Ask for it again.")
	}
	if err != nil {
		return videostore.Commit{}, err
	}
	if err := media.MakeClip(ctx, s.Tool, job); err != nil {
		return videostore.Commit{}, err
	}
	file, err := w.Put(ctx, job.Out, "video/mp4")
	return videostore.Commit{Output: file}, err
}

func (s clip) gather(ctx context.Context, w *pipeline.Work) (ffmpeg.ClipJob, error) {
	job := ffmpeg.ClipJob{
		Out: filepath.Join(w.Dir, "clip.mp4"),
		FPS: w.Plan.FPS, First: int64(w.Key.Index), Frames: int64(w.Key.Length), MaxRate: w.Plan.Renditions[0].MaxRate,
	}
	view, err := s.Videos.View(ctx, w.Subject.ID)
	if err != nil {
		return job, fmt.Errorf("read steps of %s: %w", w.Subject.ID, err)
	}
	whole, err := videostore.Presentation(view, w.Plan.Generation)
	if err != nil {
		return job, err
	}
	end := job.First + job.Frames
	sound := media.Sound(whole, ffmpeg.Samples(job.FPS, job.First), ffmpeg.Samples(job.FPS, end))
	job.Video, job.Audio, err = step.JoinBoth(ctx, s.Blobs, w, media.Pictures(whole, job.First, end), sound)
	return job, err
}
