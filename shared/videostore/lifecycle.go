package videostore

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workqueue"
)

// ErrState says that the video is not in a state that allows the request.
var ErrState = errors.New("video is not in a state that allows this")

// IndexIntent asks for the catalogue and the search index to follow META (T8).
func IndexIntent() Intent {
	return Intent{Queue: workqueue.Index, Step: StepIndex, ID: uuid.NewString()}
}

// leadChunks is how many chunks of every video travel on the high-priority
// queue: about the first half minute, which is what a viewer waits for.
const leadChunks = 3

// EncodeQueue chooses the queue of a chunk (Q5): the lead chunks of a new video
// overtake everything, so that every upload is soon playable; the rest follows
// the user's priority, and reprocessing never gets in anybody's way.
func EncodeQueue(v video.Video, index int) string {
	switch {
	case v.Serving > 0 || v.Priority == video.Low && index >= leadChunks:
		return workqueue.EncodeLow
	case v.Priority == video.High || index < leadChunks:
		return workqueue.EncodeHigh
	}
	return workqueue.EncodeNormal
}

// FanOut returns the intents for every chunk and the audio of a plan.
func FanOut(v video.Video, plan video.Plan) []Intent {
	var intents []Intent
	for i := range plan.Chunks {
		intents = append(intents, Intent{Queue: EncodeQueue(v, i), Step: StepEncode, Generation: plan.Generation, Index: i})
	}
	if plan.HasAudio { // after the first chunk: nothing can be played without both
		audio := Intent{Queue: workqueue.Audio, Step: StepAudio, Generation: plan.Generation}
		intents = append(intents[:1:1], append([]Intent{audio}, intents[1:]...)...)
	}
	return intents
}

func probeIntent(generation int) Intent {
	return Intent{Queue: workqueue.Probe, Step: StepProbe, Generation: generation}
}

// Missing returns the intents for every step of the newest generation that is
// neither done nor failed: what a retry and the reconciler send again.
func (v View) Missing() []Intent {
	generation := v.Video.Generation
	open := func(i Intent) bool {
		s, found := v.Find(generation, i.Step, i.Index)
		return !found || s.State != StepDone
	}
	if probe := probeIntent(generation); open(probe) {
		return []Intent{probe}
	}
	plan := v.Plans[generation]
	var missing []Intent
	for _, i := range FanOut(v.Video, plan) {
		if open(i) {
			missing = append(missing, i)
		}
	}
	if len(missing) > 0 {
		return missing
	}
	if finish := FinishIntent(generation); open(finish) {
		return []Intent{finish}
	}
	return nil
}

// FinishIntent asks for the step that follows the last chunk.
func FinishIntent(generation int) Intent {
	return Intent{Queue: workqueue.Finish, Step: StepFinish, Generation: generation}
}

// PurgeIntent asks for everything of a deleted video to be removed.
func PurgeIntent() Intent { return Intent{Queue: workqueue.Purge, Step: StepPurge} }

// Uploaded says that the source blob is committed, as the version etag: the video
// moves on to uploaded and a probe is promised, in one transaction. From here on
// another version is not processed. Repeating it is no error and changes nothing.
func (s *Store) Uploaded(ctx context.Context, id video.ID, sizeBytes int64, etag string) (Record, error) {
	return s.Change(ctx, id, "", func(v *video.Video) ([]Intent, error) {
		if v.State != video.AwaitingUpload {
			if v.UploadedAt.IsZero() || v.State == video.Deleting {
				return nil, ErrState
			}
			return nil, ErrUnchanged // a repeated request
		}
		v.State, v.SizeBytes, v.SourceETag, v.UploadedAt = video.Uploaded, sizeBytes, etag, now()
		v.Generation = 1
		return []Intent{probeIntent(v.Generation), IndexIntent()}, nil
	})
}

// Cancel stops a video that is not finished. Running steps notice and stop;
// messages that are still queued are dropped when they come up.
func (s *Store) Cancel(ctx context.Context, id video.ID) (Record, error) {
	return s.Change(ctx, id, "", func(v *video.Video) ([]Intent, error) {
		switch v.State {
		case video.Cancelled:
			return nil, ErrUnchanged
		case video.AwaitingUpload, video.Uploaded, video.Processing:
			v.State = video.Cancelled
			return []Intent{IndexIntent()}, nil
		}
		return nil, ErrState
	})
}

// Retry takes a failed or cancelled video up again where it stopped: finished
// chunks are kept.
func (s *Store) Retry(ctx context.Context, id video.ID) (Record, error) {
	view, err := s.View(ctx, id)
	if err != nil {
		return Record{}, err
	}
	if view.Video.State != video.Failed && view.Video.State != video.Cancelled {
		return Record{}, ErrState
	}
	if err := s.Reopen(ctx, view, view.Missing()); err != nil {
		return Record{}, err
	}
	if err := s.markInflight(ctx, id); err != nil { // also when nothing is enqueued: an upload is awaited
		return Record{}, err
	}
	return s.Change(ctx, id, view.ETag, func(v *video.Video) ([]Intent, error) {
		v.Error = nil
		if v.UploadedAt.IsZero() {
			v.State = video.AwaitingUpload
			return nil, nil
		}
		v.State = video.Uploaded
		if _, planned := view.Plans[v.Generation]; planned {
			v.State = video.Processing
		}
		return append(view.Missing(), IndexIntent()), nil
	})
}

// Reprocess makes a new generation from the stored source. The finished one
// plays on until the new one is ready.
func (s *Store) Reprocess(ctx context.Context, id video.ID) (Record, error) {
	return s.Change(ctx, id, "", func(v *video.Video) ([]Intent, error) {
		if !v.State.Terminal() || v.UploadedAt.IsZero() {
			return nil, ErrState
		}
		v.Generation++
		v.State, v.Error = video.Uploaded, nil
		return []Intent{probeIntent(v.Generation)}, nil
	})
}

// Delete puts up the tombstone and promises the purge. From here on the video
// is not found by anybody but the purge step. Repeating it is no error. With
// ifMatch set only that version is deleted.
func (s *Store) Delete(ctx context.Context, id video.ID, ifMatch string) (Record, error) {
	return s.Change(ctx, id, ifMatch, func(v *video.Video) ([]Intent, error) {
		if v.State == video.Deleting {
			return nil, ErrUnchanged
		}
		v.State = video.Deleting
		return []Intent{PurgeIntent()}, nil
	})
}

// Reopen clears the claims of the steps that intents name, so that a new message
// may take them over. It is for steps whose message is known, or strongly
// believed, to be lost; should it still exist, the fence decides between the two.
func (s *Store) Reopen(ctx context.Context, view View, intents []Intent) error {
	for _, intent := range intents {
		step, found := view.find(intent.key(view.Video.ID))
		if !found || step.State == StepDone {
			continue
		}
		step.State, step.Carrier, step.QueuedAt = StepQueued, "", now()
		if _, err := s.videos.Update(ctx, step.row(), step.etag); err != nil && !isStale(err) {
			return fmt.Errorf("reopen %s: %w", step.Key, err)
		}
	}
	return nil
}

// Promise writes intents to the outbox and sends them, without changing META.
func (s *Store) Promise(ctx context.Context, rec Record, intents []Intent) error {
	_, err := s.write(ctx, rec, intents)
	return err
}

// FailStep records that the attempts of a step are used up: first the step row,
// then the video, and only then may the message go to the poison queue. A clip
// that fails does not fail its video. A step that is done or not wanted any more
// is left alone. Safe to repeat.
func (s *Store) FailStep(ctx context.Context, key StepKey, failure *video.Failure) error {
	rec, err := s.Get(ctx, key.ID)
	if errors.Is(err, ErrNotFound) || err == nil && !key.wanted(rec.Video) {
		return nil
	}
	if err != nil {
		return err
	}
	step := Step{Key: key}
	row, err := s.videos.Get(ctx, string(key.ID), key.rowKey())
	missing := errors.Is(err, tablestore.ErrNotFound) // never claimed
	switch {
	case missing && key.Step == StepClip:
		return nil // erased: the video is going
	case missing:
	case err != nil:
		return fmt.Errorf("read %s: %w", key, err)
	default:
		if step, err = readStep(row); err != nil {
			return err
		}
	}
	if step.State == StepDone {
		return nil
	}
	step.State, step.Error, step.FinishedAt = StepFailed, failure, now()
	if missing {
		_, err = s.videos.Insert(ctx, step.row())
	} else {
		_, err = s.videos.Update(ctx, step.row(), step.etag)
	}
	if isStale(err) || errors.Is(err, tablestore.ErrExists) {
		return s.FailStep(ctx, key, failure) // claimed or erased this instant: look again
	}
	if err != nil {
		return fmt.Errorf("fail %s: %w", key, err)
	}
	if key.Step == StepClip {
		return nil
	}
	_, err = s.Change(ctx, key.ID, "", func(v *video.Video) ([]Intent, error) {
		if !key.wanted(*v) {
			return nil, ErrUnchanged
		}
		v.State, v.Error = video.Failed, failure
		return []Intent{IndexIntent()}, nil
	})
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// FanIn promises the finish step when every chunk and the audio are committed.
// Every chunk and the audio call it after their own commit, so whichever commit
// is last sees all the others; of several that see them, inserting the finish
// row lets one win. Returns whether this call won. Safe to repeat.
func (s *Store) FanIn(ctx context.Context, id video.ID, plan video.Plan) (bool, error) {
	done := 0
	rows := s.videos.Query(ctx, tablestore.Query{
		PartitionKey: string(id),
		RowFrom:      fmt.Sprintf("STEP:%05d:", plan.Generation), RowTo: tablestore.PrefixEnd(fmt.Sprintf("STEP:%05d:", plan.Generation)),
		Filter: "State eq " + tablestore.Quote(string(StepDone)),
		Select: []string{"PartitionKey", "RowKey"}, Class: tablestore.RowRange,
	})
	for row, err := range rows {
		if err != nil {
			return false, fmt.Errorf("count finished steps of %s: %w", id, err)
		}
		key, err := scanStepKey(id, row.RowKey)
		if err != nil {
			return false, err
		}
		if key.Step == StepEncode || key.Step == StepAudio {
			done++
		}
	}
	want := len(plan.Chunks)
	if plan.HasAudio {
		want++
	}
	if done < want {
		return false, nil
	}
	finish := Step{Key: StepKey{ID: id, Generation: plan.Generation, Step: StepFinish}, State: StepQueued, QueuedAt: now()}
	out, err := outboxRows(id, []Intent{FinishIntent(plan.Generation)})
	if err != nil {
		return false, err
	}
	_, err = s.videos.Submit(ctx, []tablestore.Op{
		{Kind: tablestore.OpInsert, Entity: finish.row()},
		{Kind: tablestore.OpInsert, Entity: out[0]},
	})
	if errors.Is(err, tablestore.ErrExists) {
		return false, nil // another commit was first, or this is a repetition
	}
	if err != nil {
		return false, fmt.Errorf("promise finish of %s: %w", id, err)
	}
	return true, s.sendRows(ctx, id, out)
}

// MarkPlayable turns Playable on when the first segments can be watched. It
// never turns it off. Called after commits, like FanIn, and for the same reason
// safe to repeat.
func (s *Store) MarkPlayable(ctx context.Context, id video.ID) error {
	view, err := s.View(ctx, id)
	if err != nil {
		return err
	}
	if view.Video.Playable {
		return nil
	}
	p, err := view.Presentation(view.Video.Generation)
	if err != nil || !p.Ready() {
		return err
	}
	_, err = s.Change(ctx, id, "", func(v *video.Video) ([]Intent, error) {
		if v.Playable || !v.State.Active() {
			return nil, ErrUnchanged
		}
		v.Playable = true
		return []Intent{IndexIntent()}, nil
	})
	return err
}

// Erase removes the rows of a deleted video: everything but META first, so that
// no late worker can commit, and META with the last call. Returns whether a
// step was still claimed, in which case its worker may yet write a blob.
func (s *Store) Erase(ctx context.Context, id video.ID, withMeta bool) (claimed bool, _ error) {
	rows, err := collect(s.videos.Query(ctx, tablestore.Query{PartitionKey: string(id), Class: tablestore.PartitionRange}))
	if err != nil {
		return false, fmt.Errorf("list rows of %s: %w", id, err)
	}
	var ops []tablestore.Op
	for _, row := range rows {
		if row.RowKey == metaKey {
			continue
		}
		claimed = claimed || row.String("State") == string(StepRunning)
		ops = append(ops, tablestore.Op{Kind: tablestore.OpDelete, Entity: row, IfMatch: "*"})
	}
	if err := s.videos.SubmitAll(ctx, ops); err != nil && !isStale(err) {
		return claimed, fmt.Errorf("erase rows of %s: %w", id, err)
	}
	if !withMeta {
		return claimed, nil
	}
	if err := s.videos.Delete(ctx, string(id), metaKey, "*"); err != nil && !isStale(err) {
		return claimed, fmt.Errorf("erase video %s: %w", id, err)
	}
	if err := s.inflight.Delete(ctx, inflightPartition(id), string(id), "*"); err != nil && !isStale(err) {
		return claimed, fmt.Errorf("settle video %s: %w", id, err)
	}
	return claimed, nil
}
