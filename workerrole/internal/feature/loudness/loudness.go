// Package loudness measures the sound of videos.
package loudness

import (
	"context"
	"errors"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
	"github.com/cutroom/cutroom/workerrole/internal/step"
)

// New returns the feature.
func New(n step.Needs) step.Feature {
	return step.Feature{Steps: map[string]pipeline.Step{workflow.StepLoudness: measure{n.Tool}}}
}

// measure measures the sound of a video that is ready, so that the player can turn down
// a loud one.
//
//	Reads   the sound of the source
//	Writes  the facts of META: integratedLufs, rangeLu, truePeakDb, gainDb
//	Errors  fails alone: a video without a gain plays as it is
//	Repeat  measures the same
type measure struct{ Tool *ffmpeg.Tool }

// facts are what was heard, and the gain that brings the video to targetLUFS: at most 0,
// because the player of a web page can only turn down.
type facts struct {
	ffmpeg.Loudness
	GainDB float64 `json:"gainDb"`
}

// targetLUFS is near the target of most players on the web. With -23, the broadcasters'
// target, most uploads would be turned down.
const targetLUFS = -16

// Run implements pipeline.Step.
func (s measure) Run(ctx context.Context, w *pipeline.Work) (videostore.Commit, error) {
	source, err := w.OpenSource(ctx)
	if err != nil {
		return videostore.Commit{}, err
	}
	heard, err := s.Tool.Loudness(ctx, source)
	if damaged := new(ffmpeg.RunError); errors.As(err, &damaged) {
		err = engine.Fail(video.CorruptMedia, "Its sound could not be measured: %v", err)
	}
	if err != nil {
		return videostore.Commit{}, err
	}
	found := facts{heard, min(0, targetLUFS-heard.Integrated)}
	return videostore.Commit{Output: found, Facts: found}, nil
}
