// Package captions reads subtitle files from any program and writes plain
// WebVTT (https://www.w3.org/TR/webvtt1/): times and text, no styles, no markup,
// nothing that a browser would interpret.
package captions

import (
	"context"
	"errors"

	"golang.org/x/text/language"

	"github.com/cutroom/cutroom/shared/captions"
	"github.com/cutroom/cutroom/shared/charset"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
	"github.com/cutroom/cutroom/workerrole/internal/step"
)

// New returns the feature.
func New() step.Feature {
	return step.Feature{Steps: map[string]pipeline.Step{workflow.StepCaptions: clean{}}}
}

// clean makes clean WebVTT of an uploaded subtitle file.
//
//	Reads   the file that came with the request: WebVTT or SRT
//	Writes  media/{attempt}/captions.vtt
//	Next    nothing
//	Errors  *engine.Failure invalid_captions when there is nothing to read, or
//	        undecodable_text; the captions fail, the video does not
//	Repeat  writes the same to a name of its own; only one attempt's row commits
type clean struct{}

// Run implements pipeline.Step.
func (clean) Run(ctx context.Context, w *pipeline.Work) (videostore.Commit, error) {
	file, err := w.ReadInput(ctx)
	if err != nil {
		return videostore.Commit{}, err
	}
	track, err := Read(file, language.Make(w.Key.Variant))
	var undecodable *charset.Error
	switch {
	case errors.As(err, &undecodable):
		err = engine.Fail(captions.Undecodable, "The file cannot be read: %v.", undecodable)
	case errors.Is(err, ErrUnreadable):
		err = engine.Fail(captions.Invalid, "The file cannot be read: %v.", err)
	}
	if err != nil {
		return videostore.Commit{}, err
	}
	stored, err := w.PutData(ctx, "captions.vtt", track.Text, "text/vtt; charset=utf-8")
	return videostore.Commit{Output: captions.Output{
		Blob: stored.Blob, Bytes: stored.Bytes, Cues: track.Cues, LeftOut: track.LeftOut, Charset: track.Charset,
	}}, err
}
