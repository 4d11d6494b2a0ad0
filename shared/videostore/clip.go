package videostore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// ErrOutside says that a clip would not lie inside the video.
var ErrOutside = errors.New("part is not inside the video")

// Footage is the generation that plays, from which clips are cut.
type Footage struct {
	ID         video.ID
	Generation int
	FPS        video.Rational
	Frames     int64
}

// Footage reads what clips are cut from: three point reads (T5), or two when the plan is
// in memory. ErrNotFound, also for a deleted video. ErrState while no generation is
// finished.
func (s *Store) Footage(ctx context.Context, id video.ID) (f Footage, _ error) {
	rec, err := s.Get(ctx, id)
	switch {
	case err != nil:
		return f, err
	case rec.Video.State.Gone():
		return f, ErrNotFound
	case rec.Video.Serving == 0:
		return f, ErrState
	}
	f.ID, f.Generation = id, rec.Video.Serving
	plan, err := s.Plan(ctx, id, f.Generation)
	if err != nil {
		return f, err
	}
	step, err := s.step(ctx, workflow.Key{ID: id, Generation: f.Generation, Step: workflow.OnlyStepIn(workflow.Last).Name})
	if err != nil {
		return f, err
	}
	out, err := OutputOf[video.FinishOutput](step)
	if out == nil {
		return f, cmp.Or(err, ErrState)
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
func (f Footage) Clip(start, length float64) (workflow.Key, error) {
	frame := f.FPS.Seconds(1)
	if !(start >= 0 && length > 0 && start+length <= f.Seconds()+frame/2) {
		return workflow.Key{}, ErrOutside
	}
	first := int64(math.Floor(start*f.FPS.Float() + rounding))
	if first >= f.Frames {
		return workflow.Key{}, ErrOutside
	}
	frames := min(max(1, f.FPS.Frames(length)), f.Frames-first)
	return workflow.Key{ID: f.ID, Generation: f.Generation, Step: workflow.StepClip, Index: int(first), Frames: int(frames)}, nil
}

// ParseClipID is the inverse of [workflow.Key.Name]. ErrNoClip.
func ParseClipID(id video.ID, text string) (workflow.Key, error) {
	k := workflow.Key{ID: id, Step: workflow.StepClip}
	_, err := fmt.Sscanf(text, "g%5d-%9d-%6d", &k.Generation, &k.Index, &k.Frames)
	if err != nil || k.Name() != text || k.Generation < 1 || k.Index < 0 || k.Frames < 1 {
		return workflow.Key{}, ErrNoClip
	}
	return k, nil
}

// Clips returns a page of a video's clips in the order of their frames, and the token of
// the next page, empty at the end. tablestore.ErrToken for a token that is not ours.
func (s *Store) Clips(ctx context.Context, id video.ID, limit int, token string) (clips []Step, next string, err error) {
	query := requests(id, workflow.StepClip)
	query.PageSize, query.Read = int32(limit), tablestore.Into(&clips, readStep)
	if _, next, err = s.videos.Page(ctx, query, token); err != nil {
		return nil, "", fmt.Errorf("list clips of %s: %w", id, err)
	}
	return clips, next, nil
}

// isOpen is the filter for steps that have not ended.
var isOpen = "State eq " + tablestore.Quote(string(StepQueued)) + " or State eq " + tablestore.Quote(string(StepRunning))

// RequestClip asks for a clip of the generation that plays and returns its step. A second
// request for the same frames finds the same row, but one that failed is promised again. Safe to
// repeat. ErrNotFound when the video is deleted, ErrState when another generation plays, ErrBusy
// when too many clips are open, a *QuotaError when asker has too many open.
func (s *Store) RequestClip(ctx context.Context, key workflow.Key, asker string) (Step, error) {
	reserved := false
	return s.promiseRequest(ctx, key, func(v video.Video, clip *Step) (bool, error) {
		switch {
		case v.Serving != key.Generation:
			return false, ErrState
		case clip.State != "" && clip.State != StepFailed:
			return false, nil
		case clip.State == "":
			clip.CreatedAt = now()
		}
		if limit := s.limits.ClipsOfVideo; limit > 0 {
			if full, err := s.full(ctx, key.ID, workflow.StepClip, isOpen, limit); full || err != nil {
				return false, cmp.Or(err, ErrBusy)
			}
		}
		if reserved {
			return true, nil
		}
		reserved = true
		return true, s.reserveClip(ctx, asker, key)
	})
}
