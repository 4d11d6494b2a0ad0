package videostore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// ErrState says that the video is not in a state that allows the request.
var ErrState = errors.New("video is not in a state that allows this")

// FollowMessage promises the step on change: catalogue and search follow META (T8).
func FollowMessage() OutboxMessage {
	return messageFor(video.Video{}, video.Plan{}, workflow.OnlyStepIn(workflow.OnChange), 0)
}

// RemoveMessage promises the step on delete: everything of a deleted video is removed.
func RemoveMessage() OutboxMessage {
	return messageFor(video.Video{}, video.Plan{}, workflow.OnlyStepIn(workflow.OnDelete), 0)
}

// Uploaded records that all parts of an upload are there, and promises the first step; of a
// video that was planned while its upload went on, what is open. etag is that of the manifest
// of an epoch: only this version is processed. Safe to repeat. ErrChanged when the upload was
// begun anew meanwhile and has another epoch, ErrState for a video that is deleted or was
// cancelled before its upload.
func (s *Store) Uploaded(ctx context.Context, id video.ID, epoch, etag string) (Record, error) {
	return s.changeWith(ctx, id, "", func(v *video.Video) ([]OutboxMessage, []tablestore.Op, error) {
		switch {
		case v.State != video.AwaitingUpload && (v.UploadedAt.IsZero() || v.State.Gone()):
			return nil, nil, ErrState
		case v.State != video.AwaitingUpload:
			return nil, nil, ErrUnchanged // a repeated request
		case v.Upload == nil || v.Upload.Epoch != epoch:
			return nil, nil, ErrChanged
		}
		v.SizeBytes, v.SourceETag, v.UploadedAt = v.Upload.Bytes, etag, now()
		if v.Chunks > 0 {
			return s.promiseRest(ctx, v)
		}
		v.State = video.Uploaded
		return []OutboxMessage{s.FirstStep(ctx, v), FollowMessage()}, nil, nil
	})
}

// FirstStep asks for the first step. It chooses the lane, unless work on the upload was begun.
func (s *Store) FirstStep(ctx context.Context, v *video.Video) OutboxMessage {
	if !v.Upload.Started {
		v.Lane, v.Bulk = s.sender.Lane(ctx, v.Channel, v.Priority == video.High)
	}
	v.Generation = max(1, v.Generation)
	return probeMessage(*v)
}

// Cancel stops a video that is not finished. Running steps notice it and stop. Messages
// in the queues are deleted when they are delivered. Safe to repeat. ErrState when the
// video is ready, failed or deleted.
func (s *Store) Cancel(ctx context.Context, id video.ID) (Record, error) {
	return s.Change(ctx, id, "", func(v *video.Video) ([]OutboxMessage, error) {
		switch v.State {
		case video.Cancelled:
			return nil, ErrUnchanged
		case video.AwaitingUpload, video.Uploaded, video.Processing:
			v.State = video.Cancelled
			return []OutboxMessage{FollowMessage()}, nil
		}
		return nil, ErrState
	})
}

// Retry continues a failed or cancelled video: chunks that are done are kept. For a
// ready one it sends again the steps that failed alone. ErrState when there are none,
// or in any other state.
func (s *Store) Retry(ctx context.Context, id video.ID) (Record, error) {
	view, err := s.View(ctx, id)
	if err != nil {
		return Record{}, err
	}
	if view.Video.State == video.Ready {
		return view.Record, s.retryOptional(ctx, view)
	}
	if view.Video.State != video.Failed && view.Video.State != video.Cancelled {
		return Record{}, ErrState
	}
	before, v := view.Record, &view.Video
	v.Error, v.State = nil, video.Uploaded
	if _, planned := view.Plans[v.Generation]; planned {
		v.State = video.Processing
	}
	if v.UploadedAt.IsZero() {
		v.State = video.AwaitingUpload
	}
	missing := append(view.Missing(), view.failedOptional(v.Generation)...)
	if err := s.Reopen(ctx, view, missing); err != nil {
		return Record{}, err
	}
	if v.State != video.AwaitingUpload {
		missing = append(missing, FollowMessage())
	}
	return s.write(ctx, before, *v, missing)
}

func (v View) failedOptional(generation int) []OutboxMessage {
	return slices.DeleteFunc(v.optional(generation), func(i OutboxMessage) bool {
		s, found := v.StepOf(i.Key)
		return !found || s.State != StepFailed
	})
}

// retryOptional sends again the steps that failed alone in the generation that plays. The mark
// is written first: if the process then dies, the reconciler finds the reopened steps.
func (s *Store) retryOptional(ctx context.Context, view View) error {
	failed := view.failedOptional(view.Video.Serving)
	if len(failed) == 0 {
		return ErrState
	}
	if err := s.markAtRest(ctx, view.Record); err != nil {
		return err
	}
	if err := s.Reopen(ctx, view, failed); err != nil {
		return err
	}
	return s.Resend(ctx, view.Record, failed)
}

// Reprocess starts a new generation from the stored source. The old one plays until the
// new one is ready. ErrState when the video is being processed or was never uploaded,
// ErrBusy when too many reprocessings are open, a *QuotaError when the owner has no room.
func (s *Store) Reprocess(ctx context.Context, id video.ID) (Record, error) {
	may := func(v video.Video) bool { return v.State.Terminal() && !v.UploadedAt.IsZero() }
	rec, err := s.Get(ctx, id)
	if err == nil && !may(rec.Video) {
		err = ErrState
	}
	if err == nil {
		next := rec.Video
		next.Generation++
		_, err = s.takePlace(ctx, allReprocessings, probeMessage(next).Key, s.limits.Reprocessings, ErrBusy)
	}
	if err != nil {
		return Record{}, err
	}
	return s.Change(ctx, id, "", func(v *video.Video) ([]OutboxMessage, error) {
		if !may(*v) {
			return nil, ErrState
		}
		v.Generation++
		v.State, v.Error, v.Chunks = video.Uploaded, nil, 0
		return []OutboxMessage{probeMessage(*v)}, nil
	})
}

// Delete sets the state deleting, the tombstone, and promises the purge. From then on
// only the purge step finds the video. With ifMatch it deletes only that version, else
// ErrChanged. A video whose META cannot be read is deleted in any version. Safe to repeat.
func (s *Store) Delete(ctx context.Context, id video.ID, ifMatch string) (Record, error) {
	rec, err := s.Change(ctx, id, ifMatch, func(v *video.Video) ([]OutboxMessage, error) {
		if v.State == video.Deleting {
			return nil, ErrUnchanged
		}
		v.State = video.Deleting
		return []OutboxMessage{RemoveMessage()}, nil
	})
	if errors.Is(err, tablestore.ErrUnreadable) {
		return s.setDeleting(ctx, id)
	}
	return rec, err
}

// setDeleting puts the tombstone in the place of a META that cannot be read. What can be read
// of it stays, such as whose it is: the purge needs that.
func (s *Store) setDeleting(ctx context.Context, id video.ID) (Record, error) {
	row, err := s.videos.Get(ctx, string(id), metaKey)
	if err != nil {
		return Record{}, err
	}
	rec, err := readMeta(row)
	if err == nil {
		return s.Delete(ctx, id, "") // it was repaired meanwhile
	}
	rec.Video.ID, rec.Video.State = id, video.Deleting
	rec, err = s.write(ctx, rec, rec.Video, []OutboxMessage{RemoveMessage()})
	if errors.Is(err, ErrChanged) {
		return s.Delete(ctx, id, "")
	}
	return rec, err
}

// Reopen clears the claims of the steps that messages name, so that a new message may claim
// them. Call it only when their messages are believed to be lost. If an attempt still runs, its
// commit is refused, as the janitor may have removed its blobs. Steps that are done, and those
// that another process changes meanwhile, stay as they are.
func (s *Store) Reopen(ctx context.Context, view View, messages []OutboxMessage) error {
	for _, message := range messages {
		before, found := view.StepOf(message.Key)
		if !found || before.State == StepDone {
			continue
		}
		step := before
		step.abandoned(now())
		step.State, step.OwnerMessageID, step.Attempt, step.QueuedAt = StepQueued, "", "", now()
		if err := s.update(ctx, before, step, video.Plan{}); err != nil {
			return err
		}
	}
	return nil
}

// Erase removes the rows of a deleted video: first all but META, so that no late worker
// can commit. With withMeta it then removes META, and starts again if that has changed.
// A video that is not being deleted is left alone. claimed says that a step was running,
// whose worker may still write a blob. Safe to repeat.
func (s *Store) Erase(ctx context.Context, id video.ID, withMeta bool) (claimed bool, _ error) {
	rec, err := s.Get(ctx, id)
	there := !errors.Is(err, ErrNotFound)
	if there && (err != nil || rec.Video.State != video.Deleting) {
		return false, err
	}
	claimed, err = s.eraseRows(ctx, id)
	if err != nil || !withMeta {
		return claimed, err
	}
	mark := markOf(rec.Video)
	if there {
		if err = errors.Join(s.forgetKey(ctx, rec.Video), s.leavePlaces(ctx, id)); err == nil {
			err = s.videos.Delete(ctx, string(id), metaKey, rec.ETag)
		}
		if errors.Is(err, tablestore.ErrChanged) {
			again, err := s.Erase(ctx, id, withMeta)
			return claimed || again, err
		}
		if err != nil {
			return claimed, err
		}
	} else if mark, err = s.InflightMark(ctx, id); err != nil { // an earlier delivery removed META
		return claimed, err
	}
	// The mark stays for a while: see Sweep. It says whose the video was.
	mark.Erased = true
	return claimed, errors.Join(s.mark(ctx, mark), s.CountOwned(ctx, id))
}

// eraseRows removes all rows but META.
func (s *Store) eraseRows(ctx context.Context, id video.ID) (claimed bool, _ error) {
	rows := tablestore.Query{PartitionKey: string(id), Filter: "State eq " + tablestore.Quote(string(StepRunning)), Class: tablestore.RowRange}
	running, err := s.videos.First(ctx, rows, 1)
	if err == nil {
		rows.Filter = "RowKey ne " + tablestore.Quote(metaKey)
		_, err = s.videos.Clear(ctx, rows)
	}
	return len(running) > 0, err
}

// Sweep removes rows of a video that has no META, and returns how many. A worker may insert
// the row of a step or of a preview while the video is being purged. No query goes over all
// videos, so the purge leaves the video's mark, and the reconciler calls Sweep when that is
// old. A video with META is left alone. Safe to repeat.
func (s *Store) Sweep(ctx context.Context, id video.ID) (removed int, _ error) {
	if _, err := s.Get(ctx, id); !errors.Is(err, ErrNotFound) {
		return 0, err
	}
	return s.videos.Clear(ctx, tablestore.Query{PartitionKey: string(id), Class: tablestore.RowRange})
}

// DropGeneration removes plan, parts and steps of a generation that is not needed any more.
// Its clips stay. The rows go first and the blobs later, when no row names them: a crash in
// between leaves blobs that the janitor finds, and not rows without blobs. Safe to repeat.
func (s *Store) DropGeneration(ctx context.Context, id video.ID, generation int) error {
	for _, kind := range []string{"STEP", "PREVIEW", "NEXT", "PLAN"} {
		prefix := fmt.Sprintf("%s:%05d", kind, generation)
		_, err := s.videos.Clear(ctx, tablestore.Query{
			PartitionKey: string(id), RowFrom: prefix, RowTo: tablestore.PrefixEnd(prefix), Class: tablestore.RowRange,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
