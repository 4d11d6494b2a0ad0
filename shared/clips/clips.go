// Package clips names what is cut from a video on request: a range of frames of the generation
// that plays. See engine.Store.Request. The output of a clip is one engine.File.
package clips

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// ErrOutside says that a clip would not lie inside the video.
var ErrOutside = errors.New("part is not inside the video")

// Footage is the generation that plays, from which clips are cut.
type Footage struct {
	ID         engine.ID
	Generation int
	FPS        video.Rational
	Frames     int64
}

// FootageOf reads what clips are cut from: three point reads (T5). engine.ErrNotFound, also for
// a deleted video. engine.ErrState while no generation is finished.
func FootageOf(ctx context.Context, s *videostore.Store, id engine.ID) (f Footage, _ error) {
	rec, err := s.Get(ctx, id)
	switch {
	case err != nil:
		return f, err
	case rec.Subject.State.Gone():
		return f, engine.ErrNotFound
	case rec.Subject.Serving == 0:
		return f, engine.ErrState
	}
	f.ID, f.Generation = id, rec.Subject.Serving
	plan, err := s.Plan(ctx, id, f.Generation)
	if err != nil {
		return f, err
	}
	last, err := s.ReadRun(ctx, engine.Key{ID: id, Generation: f.Generation, Step: workflow.Declaration.Only(engine.Last).Name})
	if err != nil {
		return f, err
	}
	out, err := engine.OutputOf[video.FinishOutput](last)
	if out == nil {
		return f, cmp.Or(err, engine.ErrState)
	}
	f.FPS, f.Frames = plan.FPS, out.Frames
	return f, nil
}

// Seconds is how long the footage is.
func (f Footage) Seconds() float64 { return f.FPS.Seconds(f.Frames) }

// rounding, in frames, is added to a time before it is rounded down. A frame's own time,
// written in microseconds, may lie just before the frame.
const rounding = 0.001

// Clip returns the key of a clip, which begins with the frame that is shown at start. Both are
// in seconds. ErrOutside when it would not lie inside the footage.
func (f Footage) Clip(start, length float64) (engine.Key, error) {
	frame := f.FPS.Seconds(1)
	if !(start >= 0 && length > 0 && start+length <= f.Seconds()+frame/2) {
		return engine.Key{}, ErrOutside
	}
	first := int64(math.Floor(start*f.FPS.Float() + rounding))
	if first >= f.Frames {
		return engine.Key{}, ErrOutside
	}
	frames := min(max(1, f.FPS.Frames(length)), f.Frames-first)
	return engine.Key{ID: f.ID, Generation: f.Generation, Step: workflow.StepClip, Index: int(first), Length: int(frames)}, nil
}

// ParseID is the inverse of [engine.Key.Name]. engine.ErrNoRun for what is no name of a clip.
func ParseID(id engine.ID, text string) (engine.Key, error) {
	k := engine.Key{ID: id, Step: workflow.StepClip}
	_, err := fmt.Sscanf(text, "g%5d-%9d-%6d", &k.Generation, &k.Index, &k.Length)
	if err != nil || k.Name() != text || k.Generation < 1 || k.Index < 0 || k.Length < 1 {
		return engine.Key{}, engine.ErrNoRun
	}
	return k, nil
}

// List returns a page of a video's clips in the order of their frames, and the token of
// the next page, empty at the end. tablestore.ErrToken for a token that is not ours.
func List(ctx context.Context, s *videostore.Store, id engine.ID, limit int, token string) (clips []engine.Run, next string, err error) {
	return s.Requests(ctx, id, workflow.StepClip, limit, token, nil)
}

// Request asks for a clip of the generation that plays and returns its step. A second
// request for the same frames finds the same row, but one that failed is promised again. Safe to
// repeat. engine.ErrNotFound when the video is deleted, engine.ErrState when another generation plays, and
// the refusal of the store's quotas.
func Request(ctx context.Context, s *videostore.Store, key engine.Key, asker string) (engine.Run, error) {
	return s.Request(ctx, key, func(v video.Video, clip *engine.Run) (bool, error) {
		switch {
		case v.Serving != key.Generation:
			return false, engine.ErrState
		case clip.State != "" && clip.State != engine.RunFailed:
			return false, nil
		case clip.State == "":
			clip.CreatedAt = engine.Now()
		}
		return true, s.Quotas.TakePlace(ctx, asker, key)
	})
}
