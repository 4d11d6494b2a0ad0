package videostore

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// A clip is a step like the others, with three differences. It is requested, so
// its row exists before its message. It is cut from a finished generation, so the video
// is not being processed. It fails alone. Its row key names the frames,
//
//	CLIP:<generation>:<first frame>:<frames>
//
// so a second request for the same frames finds the same row. The rows sort before
// META and are not part of View, so the number of clips does not make playing slower.
var clipPrefix = workflow.Key{Step: workflow.StepClip}.Declared().Rows + ":"

var (
	// ErrNoClip says that that clip was never requested.
	ErrNoClip = errors.New("clip not found")
	// ErrOutside says that a clip would not lie inside the video.
	ErrOutside = errors.New("part is not inside the video")
)

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
func (s *Store) Footage(ctx context.Context, id video.ID) (Footage, error) {
	rec, err := s.Get(ctx, id)
	if err != nil {
		return Footage{}, err
	}
	if rec.Video.State.Gone() {
		return Footage{}, ErrNotFound
	}
	generation := rec.Video.Serving
	if generation == 0 {
		return Footage{}, ErrState
	}
	plan, err := s.Plan(ctx, id, generation)
	if err != nil {
		return Footage{}, err
	}
	finish := workflow.Key{ID: id, Generation: generation, Step: workflow.OnlyStepIn(workflow.Last).Name}
	row, err := s.videos.Get(ctx, string(id), finish.RowKey())
	if err != nil {
		return Footage{}, fmt.Errorf("read %s: %w", finish, err)
	}
	var out video.FinishOutput
	if err := row.JSON("Output", &out); err != nil {
		return Footage{}, fmt.Errorf("decode output of %s: %w", finish, err)
	}
	return Footage{ID: id, Generation: generation, FPS: plan.FPS, Frames: out.Frames}, nil
}

// Seconds is how long the footage is.
func (f Footage) Seconds() float64 { return f.FPS.Seconds(f.Frames) }

// rounding, in frames, is added to a time before it is rounded down. A frame's own time,
// written in microseconds, may lie just before the frame.
const rounding = 0.001

// Clip returns the key of a clip. start and length are in seconds; the clip begins with
// the frame that is shown at start. ErrOutside when it would not lie inside the footage.
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

// ParseClipID reads the name of a clip: see [workflow.Key.Name]. ErrNoClip when the text
// is not one.
func ParseClipID(id video.ID, text string) (workflow.Key, error) {
	k, err := workflow.ParseName(id, workflow.StepClip, text)
	if err != nil {
		return k, ErrNoClip
	}
	return k, nil
}

// Clip reads a clip: a point read. ErrNoClip when it was not requested.
func (s *Store) Clip(ctx context.Context, key workflow.Key) (Step, error) {
	return s.request(ctx, key, ErrNoClip)
}

// request reads the row of a requested step; none when there is none.
func (s *Store) request(ctx context.Context, key workflow.Key, none error) (Step, error) {
	step, err := s.step(ctx, key)
	if errors.Is(err, errNoStep) {
		return Step{}, none
	}
	return step, err
}

// Clips returns a page of a video's clips in the order of their frames, and the token of
// the next page, empty at the end. tablestore.ErrToken for a token that is not ours.
func (s *Store) Clips(ctx context.Context, id video.ID, limit int, token string) (clips []Step, next string, err error) {
	_, next, err = s.videos.Page(ctx, tablestore.Query{
		PartitionKey: string(id), RowFrom: clipPrefix, RowTo: tablestore.PrefixEnd(clipPrefix),
		PageSize: int32(limit), Class: tablestore.RowRange, Read: tablestore.Into(&clips, readStep),
	}, token)
	if err != nil {
		return nil, "", fmt.Errorf("list clips of %s: %w", id, err)
	}
	return clips, next, nil
}

func requestMessage(v video.Video, key workflow.Key) OutboxMessage {
	return OutboxMessage{Queue: key.Declared().Queue(v, video.Plan{}, key.Index), Key: key}
}

// RequestClip asks for a clip of the generation that plays and returns its step. A clip
// that exists is returned as it is, but one that failed is promised again. Safe to repeat.
// ErrNotFound when the video is deleted, ErrState when another generation plays, ErrBusy
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
		if err := s.checkClips(ctx, key.ID); err != nil || reserved {
			return err == nil, err
		}
		reserved = true
		err := s.reserveClip(ctx, asker, key)
		return err == nil, err
	})
}

// checkClips returns ErrBusy when a video has as many open clips as it may. The answer is
// valid while META is unchanged, because a request for a clip changes META's ETag.
func (s *Store) checkClips(ctx context.Context, id video.ID) error {
	limit := s.limits.ClipsOfVideo
	if limit == 0 {
		return nil
	}
	open, err := s.videos.First(ctx, tablestore.Query{
		PartitionKey: string(id), RowFrom: clipPrefix, RowTo: tablestore.PrefixEnd(clipPrefix),
		Filter: "State eq " + tablestore.Quote(string(StepQueued)) + " or State eq " + tablestore.Quote(string(StepRunning)),
		Select: []string{"PartitionKey", "RowKey"}, Class: tablestore.RowRange,
	}, limit)
	if err != nil {
		return fmt.Errorf("count open clips of %s: %w", id, err)
	}
	if len(open) >= limit {
		return ErrBusy
	}
	return nil
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
		out, err := outboxRows(ctx, key.ID, []OutboxMessage{requestMessage(rec.Video, key)})
		if err != nil {
			return Step{}, err
		}
		write := tablestore.Op{Kind: tablestore.OpReplace, Entity: request.row(), IfMatch: request.etag}
		if request.etag == "" {
			write.Kind = tablestore.OpInsert
		}
		_, err = s.videos.Submit(ctx, []tablestore.Op{unchangedMeta(rec), write, {Kind: tablestore.OpInsert, Entity: out[0]}})
		// end snippet
		switch {
		case err == nil:
			return request, s.sendRows(ctx, key.ID, out)
		case !isStale(err):
			return Step{}, fmt.Errorf("ask for %s: %w", key, err)
		}
	}
}
