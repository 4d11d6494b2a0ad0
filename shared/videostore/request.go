package videostore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// Clips and captions are made on request: see engine.Store.Request.
var (
	// ErrNoClip says that that clip was never requested.
	ErrNoClip = errors.New("clip not found")
	// ErrNoCaptions says that the video has no captions in that language.
	ErrNoCaptions = errors.New("captions not found")
)

// Requested reads a clip or captions: a point read. ErrNoClip, ErrNoCaptions.
func (s *Store) Requested(ctx context.Context, key engine.Key) (engine.Run, error) {
	run, err := s.ReadRun(ctx, key)
	return run, notRequested(key, err)
}

// DropRequest removes a clip or captions: see engine.Store.DropRequest. ErrNoClip, ErrNoCaptions.
func (s *Store) DropRequest(ctx context.Context, asked engine.Run) error {
	return notRequested(asked.Key, s.Store.DropRequest(ctx, asked))
}

// notRequested says of what kind a run is that has no row.
func notRequested(key engine.Key, err error) error {
	switch {
	case !errors.Is(err, engine.ErrNoRun):
		return err
	case key.Variant != "":
		return ErrNoCaptions
	}
	return ErrNoClip
}

// Captions are asked for by sending a file. They belong to the video and not to a generation,
// so there is one row for each language, and another file asks for the same run anew. Until
// that is done, the row keeps the output of the one before, which is served meanwhile.

// maxLanguages bounds the captions of one video, so that listing them is one request.
const maxLanguages = 50

// maxTag is how long a tag may be, in bytes: package language takes any number of private
// subtags, and a row key is 1 KiB at most.
const maxTag = 44

var (
	// ErrLanguage says that a text is no BCP 47 tag of a language.
	ErrLanguage = errors.New("not the tag of a language")
	// ErrLanguages says that a video has captions in as many languages as it may.
	ErrLanguages = errors.New("captions in too many languages")
)

// CaptionsKey names the captions of a video in a language: a BCP 47 tag, of which
// all spellings are one (pt_br is pt-BR). ErrLanguage.
func CaptionsKey(id engine.ID, tag string) (engine.Key, error) {
	if len(tag) > maxTag {
		return engine.Key{}, fmt.Errorf("a tag of %d bytes: %w", len(tag), ErrLanguage)
	}
	parsed, err := language.Parse(tag)
	if base, _, _ := parsed.Raw(); err != nil || base.String() == "und" {
		return engine.Key{}, fmt.Errorf("%q: %w", tag, ErrLanguage)
	}
	return engine.Key{ID: id, Step: workflow.StepCaptions, Variant: parsed.String()}, nil
}

// LanguageName is what a language is called in itself, such as Deutsch, or its tag.
func LanguageName(tag string) string {
	parsed, err := language.Parse(tag)
	if name := display.Self.Name(parsed); err == nil && name != "" {
		return name
	}
	return tag
}

// AllCaptions reads the captions of a video in the order of their tags: a row range (T5).
func (s *Store) AllCaptions(ctx context.Context, id engine.ID) ([]engine.Run, error) {
	all, _, err := s.Requests(ctx, id, workflow.StepCaptions, maxLanguages, "", func(run engine.Run) error {
		_, err := engine.OutputOf[video.CaptionsOutput](run)
		return err
	})
	return all, err
}

// RequestCaptions asks for captions to be made from a blob in container "sources", which is
// there already. Safe to repeat: the same blob asks for nothing new, unless it has failed.
// Another blob replaces what was asked for, also while a worker is at it: that worker's commit
// is refused. engine.ErrNotFound when the video is gone or going, ErrLanguages.
func (s *Store) RequestCaptions(ctx context.Context, key engine.Key, input string) (engine.Run, error) {
	return s.Request(ctx, key, func(_ video.Video, captions *engine.Run) (bool, error) {
		switch {
		case captions.State == "":
			if full, err := s.HasRequests(ctx, key.ID, workflow.StepCaptions, "", maxLanguages); full || err != nil {
				return false, cmp.Or(err, ErrLanguages)
			}
		case captions.Input == input && captions.State != engine.RunFailed:
			return false, nil
		}
		// Without an attempt the row has no owner: a worker in progress is superseded.
		captions.Input, captions.Attempt, captions.Attempts, captions.CreatedAt, captions.History = input, "", 0, engine.Now(), ""
		return true, nil
	})
}

// ErrOutside says that a clip would not lie inside the video.
var ErrOutside = errors.New("part is not inside the video")

// Footage is the generation that plays, from which clips are cut.
type Footage struct {
	ID         engine.ID
	Generation int
	FPS        video.Rational
	Frames     int64
}

// Footage reads what clips are cut from: three point reads (T5), or two when the plan is
// in memory. engine.ErrNotFound, also for a deleted video. engine.ErrState while no generation is
// finished.
func (s *Store) Footage(ctx context.Context, id engine.ID) (f Footage, _ error) {
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

// ParseClipID is the inverse of [engine.Key.Name]. ErrNoClip.
func ParseClipID(id engine.ID, text string) (engine.Key, error) {
	k := engine.Key{ID: id, Step: workflow.StepClip}
	_, err := fmt.Sscanf(text, "g%5d-%9d-%6d", &k.Generation, &k.Index, &k.Length)
	if err != nil || k.Name() != text || k.Generation < 1 || k.Index < 0 || k.Length < 1 {
		return engine.Key{}, ErrNoClip
	}
	return k, nil
}

// Clips returns a page of a video's clips in the order of their frames, and the token of
// the next page, empty at the end. tablestore.ErrToken for a token that is not ours.
func (s *Store) Clips(ctx context.Context, id engine.ID, limit int, token string) (clips []engine.Run, next string, err error) {
	return s.Requests(ctx, id, workflow.StepClip, limit, token, nil)
}

// RequestClip asks for a clip of the generation that plays and returns its step. A second
// request for the same frames finds the same row, but one that failed is promised again. Safe to
// repeat. engine.ErrNotFound when the video is deleted, engine.ErrState when another generation plays, ErrBusy
// when too many clips are open, a *QuotaError when asker has too many open.
func (s *Store) RequestClip(ctx context.Context, key engine.Key, asker string) (engine.Run, error) {
	reserved := false
	return s.Request(ctx, key, func(v video.Video, clip *engine.Run) (bool, error) {
		switch {
		case v.Serving != key.Generation:
			return false, engine.ErrState
		case clip.State != "" && clip.State != engine.RunFailed:
			return false, nil
		case clip.State == "":
			clip.CreatedAt = engine.Now()
		}
		if limit := s.limits.ClipsOfVideo; limit > 0 {
			if full, err := s.HasRequests(ctx, key.ID, workflow.StepClip, engine.IsOpen, limit); full || err != nil {
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
