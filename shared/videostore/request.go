package videostore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// A run of a step on request, which is a clip or captions, is a step like the others, with
// three differences. It is requested, so its row exists before its message. The video need not
// be processed. It fails alone. Its row sorts before META and is not part of View, so the
// number of such rows does not make playing slower.
var (
	// ErrNoClip says that that clip was never requested.
	ErrNoClip = errors.New("clip not found")
	// ErrNoCaptions says that the video has no captions in that language.
	ErrNoCaptions = errors.New("captions not found")
)

// Requested reads a run of a step on request: a point read. ErrNoClip, ErrNoCaptions.
func (s *Store) Requested(ctx context.Context, key workflow.Key) (Step, error) {
	step, err := s.step(ctx, key)
	if errors.Is(err, errNoStep) {
		err = notRequested(key)
	}
	return step, err
}

func notRequested(key workflow.Key) error {
	if key.Language != "" {
		return ErrNoCaptions
	}
	return ErrNoClip
}

// requests selects the runs of a step on request: a row range (T5).
func requests(id video.ID, step string) tablestore.Query {
	prefix := workflow.Key{Step: step}.Declared().Rows + ":"
	return tablestore.Query{PartitionKey: string(id), RowFrom: prefix, RowTo: tablestore.PrefixEnd(prefix), Class: tablestore.RowRange}
}

// full reports whether a video has as many runs of a step on request as it may, of those that
// the filter selects. The answer is valid while META is unchanged, because a request changes
// META's ETag.
func (s *Store) full(ctx context.Context, id video.ID, step, filter string, limit int) (bool, error) {
	query := requests(id, step)
	query.Filter, query.Select = filter, []string{"State"}
	found, err := s.videos.First(ctx, query, limit)
	return len(found) >= limit, err
}

func requestMessage(v video.Video, key workflow.Key) OutboxMessage {
	return OutboxMessage{Queue: key.Declared().Queue(v, video.Plan{}, key.Index), Key: key}
}

// promiseRequest asks for a step on request and returns it. One transaction writes its row, queued,
// and promises its item; then the item is sent. prepare gets the video and the row, whose
// State is empty when there is none, and says whether anything is to be asked for. It runs
// again when META or the row has changed meanwhile.
func (s *Store) promiseRequest(ctx context.Context, key workflow.Key, prepare func(v video.Video, request *Step) (bool, error)) (Step, error) {
	for {
		rec, err := s.Get(ctx, key.ID)
		if err == nil && rec.Video.State.Gone() {
			err = ErrNotFound
		}
		if err != nil {
			return Step{}, err
		}
		request, err := s.step(ctx, key)
		if err != nil && !errors.Is(err, errNoStep) {
			return Step{}, err
		}
		if wanted, err := prepare(rec.Video, &request); err != nil || !wanted {
			return request, err
		}
		if err := s.markAtRest(ctx, rec); err != nil {
			return Step{}, err
		}
		// snippet: asked-for
		request.State, request.OwnerMessageID, request.QueuedAt, request.Error = StepQueued, "", now(), nil
		out := outboxRows(ctx, key.ID, []OutboxMessage{requestMessage(rec.Video, key)})
		_, err = s.videos.Submit(ctx, []tablestore.Op{unchangedMeta(rec), tablestore.Over(request.row(), request.etag), tablestore.Over(out[0], "")})
		// end snippet
		if err == nil {
			return request, s.sendRows(ctx, key.ID, out)
		}
		if !tablestore.Overtaken(err) {
			return Step{}, err
		}
	}
}

// DropRequest removes the row of a step on request, if it is as it was read; of a Step with a
// Key alone, however it is. The janitor then finds that no row names its blobs, and work that
// is under way finds no row and ends. ErrChanged, ErrNoClip, ErrNoCaptions.
func (s *Store) DropRequest(ctx context.Context, asked Step) error {
	_, err := s.videos.Submit(ctx, []tablestore.Op{{Kind: tablestore.OpDelete, Entity: asked.row(), IfMatch: asked.etag}})
	switch {
	case errors.Is(err, tablestore.ErrNotFound):
		return notRequested(asked.Key)
	case errors.Is(err, tablestore.ErrChanged):
		return ErrChanged
	}
	return err
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
func CaptionsKey(id video.ID, tag string) (workflow.Key, error) {
	if len(tag) > maxTag {
		return workflow.Key{}, fmt.Errorf("a tag of %d bytes: %w", len(tag), ErrLanguage)
	}
	parsed, err := language.Parse(tag)
	if base, _, _ := parsed.Raw(); err != nil || base.String() == "und" {
		return workflow.Key{}, fmt.Errorf("%q: %w", tag, ErrLanguage)
	}
	return workflow.Key{ID: id, Step: workflow.StepCaptions, Language: parsed.String()}, nil
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
func (s *Store) AllCaptions(ctx context.Context, id video.ID) (all []Step, _ error) {
	query := requests(id, workflow.StepCaptions)
	query.Read = tablestore.Into(&all, readCaptions)
	_, err := s.videos.First(ctx, query, maxLanguages)
	return all, err
}

func readCaptions(row tablestore.Entity) (Step, error) {
	step, err := readStep(row)
	if err == nil {
		_, err = OutputOf[video.CaptionsOutput](step)
	}
	return step, err
}

// RequestCaptions asks for captions to be made from a blob in container "sources", which is
// there already. Safe to repeat: the same blob asks for nothing new, unless it has failed.
// Another blob replaces what was asked for, also while a worker is at it: that worker's commit
// is refused. ErrNotFound when the video is gone or going, ErrLanguages.
func (s *Store) RequestCaptions(ctx context.Context, key workflow.Key, input string) (Step, error) {
	return s.promiseRequest(ctx, key, func(_ video.Video, captions *Step) (bool, error) {
		switch {
		case captions.State == "":
			if full, err := s.full(ctx, key.ID, workflow.StepCaptions, "", maxLanguages); full || err != nil {
				return false, cmp.Or(err, ErrLanguages)
			}
		case captions.Input == input && captions.State != StepFailed:
			return false, nil
		}
		// Without an attempt the row has no owner: a worker in progress is superseded.
		captions.Input, captions.Attempt, captions.Attempts, captions.CreatedAt, captions.History = input, "", 0, now(), ""
		return true, nil
	})
}

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
	_, next, err = s.videos.Page(ctx, query, token)
	return clips, next, err
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
