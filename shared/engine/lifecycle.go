package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// ErrState says that the subject is not in a state that allows the request.
var ErrState = errors.New("subject is not in a state that allows this")

// FollowMessage promises the step on change: the copies of META in other tables follow it (T8).
func (d Declaration) FollowMessage() OutboxMessage {
	return d.messageFor(Meta{}, Plan{}, d.Only(OnChange), 0)
}

// RemoveMessage promises the step on delete: everything of a deleted subject is removed.
func (d Declaration) RemoveMessage() OutboxMessage {
	return d.messageFor(Meta{}, Plan{}, d.Only(OnDelete), 0)
}

// Uploaded records that all parts of an upload are there, and promises the first step; of a
// subject that was planned while its upload went on, what is open. etag is that of the manifest
// of an epoch: only this version is processed. Safe to repeat. ErrChanged when the upload was
// begun anew meanwhile and has another epoch, ErrState for a subject that is deleted or was
// cancelled before its upload.
func (s *Store[V, P]) Uploaded(ctx context.Context, id ID, epoch, etag string) (Record[V], error) {
	rec, err := s.Change(ctx, id, "", func(v *V) ([]OutboxMessage, error) {
		m := metaOf(v)
		switch {
		case m.State != AwaitingUpload && (m.UploadedAt.IsZero() || m.State.Gone()):
			return nil, ErrState
		case m.State != AwaitingUpload:
			return nil, ErrUnchanged // a repeated request
		case m.Upload == nil || m.Upload.Epoch != epoch:
			return nil, ErrChanged
		}
		m.SizeBytes, m.SourceETag, m.UploadedAt = m.Upload.Bytes, etag, Now()
		if m.Items > 0 {
			m.State = Processing
			return []OutboxMessage{s.FollowMessage()}, nil
		}
		m.State = Uploaded
		return []OutboxMessage{s.FirstStep(ctx, v), s.FollowMessage()}, nil
	})
	if err == nil && rec.Meta().State == Processing {
		err = s.FanIn(ctx, id)
	}
	return rec, err
}

// FirstStep asks for the first step. It chooses the lane, unless work on the upload was begun.
func (s *Store[V, P]) FirstStep(ctx context.Context, v *V) OutboxMessage {
	m := metaOf(v)
	if !m.Upload.Started {
		m.Lane, m.Bulk = s.sender.Lane(ctx, m.Channel, m.Priority == High)
	}
	m.Generation, m.ItemVersion = max(1, m.Generation), max(m.ItemVersion, s.ItemVersion)
	return s.FirstMessage(*m)
}

// Cancel stops a subject that is not finished. Running steps notice it and stop. Messages
// in the queues are deleted when they are delivered. Safe to repeat. ErrState when the
// subject is ready, failed or deleted.
func (s *Store[V, P]) Cancel(ctx context.Context, id ID) (Record[V], error) {
	return s.Change(ctx, id, "", func(v *V) ([]OutboxMessage, error) {
		switch m := metaOf(v); m.State {
		case Cancelled:
			return nil, ErrUnchanged
		case AwaitingUpload, Uploaded, Processing:
			m.State = Cancelled
			return []OutboxMessage{s.FollowMessage()}, nil
		}
		return nil, ErrState
	})
}

// Retry continues a failed or cancelled subject: runs that are done are kept. For a
// ready one it sends again the steps that failed alone. ErrState when there are none,
// or in any other state.
func (s *Store[V, P]) Retry(ctx context.Context, id ID) (Record[V], error) {
	view, err := s.View(ctx, id)
	if err != nil {
		return Record[V]{}, err
	}
	before, m := view.Record, metaOf(&view.Subject)
	generation := m.Generation
	switch _, planned := view.Plans[generation]; {
	case m.State == Ready:
		generation = m.Serving
	case m.State != Failed && m.State != Cancelled:
		return Record[V]{}, ErrState
	case m.UploadedAt.IsZero():
		m.State = AwaitingUpload
	case planned:
		m.State = Processing
	default:
		m.State = Uploaded
	}
	m.Error = nil
	missing := append(view.Missing(), slices.DeleteFunc(view.optional(generation), func(o OutboxMessage) bool {
		run, _ := view.RunOf(o.Key)
		return run.State != RunFailed
	})...)
	if m.State == Ready && len(missing) == 0 {
		return Record[V]{}, ErrState
	}
	if err := s.Reopen(ctx, view, missing); err != nil {
		return Record[V]{}, err
	}
	return s.write(ctx, before, view.Subject, append(missing, s.FollowMessage()))
}

// Reprocess starts a new generation from the stored source. The old one serves until the
// new one is ready. ErrState when the subject is being processed or was never uploaded, and
// the refusal of its quotas.
func (s *Store[V, P]) Reprocess(ctx context.Context, id ID) (Record[V], error) {
	return s.Change(ctx, id, "", func(v *V) ([]OutboxMessage, error) {
		m := metaOf(v)
		if !m.State.Terminal() || m.UploadedAt.IsZero() {
			return nil, ErrState
		}
		m.Generation++
		m.State, m.Error, m.Items, m.ItemVersion = Uploaded, nil, 0, max(m.ItemVersion, s.ItemVersion)
		first := s.FirstMessage(*m)
		return []OutboxMessage{first}, s.Quotas.TakePlace(ctx, "", first.Key)
	})
}

// Delete sets the state deleting, the tombstone, and promises the purge. From then on
// only the purge step finds the subject. With ifMatch it deletes only that version, else
// ErrChanged. A subject whose META cannot be read is deleted in any version. Safe to repeat.
func (s *Store[V, P]) Delete(ctx context.Context, id ID, ifMatch string) (Record[V], error) {
	edit := func(v *V) ([]OutboxMessage, error) {
		m := metaOf(v)
		if m.State == Deleting {
			return nil, ErrUnchanged
		}
		m.State = Deleting
		return []OutboxMessage{s.RemoveMessage()}, nil
	}
	rec, err := s.Change(ctx, id, ifMatch, edit)
	if errors.Is(err, tablestore.ErrUnreadable) {
		return s.change(ctx, id, "", s.getAny, edit)
	}
	return rec, err
}

// getAny is Get that takes a META which cannot be read, too, for the tombstone to replace it.
// What can be read of it stays, such as whose it is: the purge needs that.
func (s *Store[V, P]) getAny(ctx context.Context, id ID) (Record[V], error) {
	rec, err := s.Get(ctx, id)
	if !errors.Is(err, tablestore.ErrUnreadable) {
		return rec, err
	}
	m := metaOf(&rec.Subject)
	m.ID, m.State = id, ""
	return rec, nil
}

// Reopen clears the claims of the steps that messages name, so that a new message may claim
// them. Call it only when their messages are believed to be lost. If an attempt still runs, its
// commit is refused, as the janitor may have removed its blobs. Steps that are done, and those
// that another process changes meanwhile, stay as they are. The mark is written first: if the process
// then dies, the reconciler finds what is open.
func (s *Store[V, P]) Reopen(ctx context.Context, view View[V, P], messages []OutboxMessage) error {
	if err := s.markAtRest(ctx, view.Meta()); err != nil {
		return err
	}
	for _, message := range messages {
		before, found := view.RunOf(message.Key)
		if !found || before.State == RunDone {
			continue
		}
		run := before
		run.abandoned(Now())
		run.State, run.OwnerMessageID, run.Attempt, run.QueuedAt = RunQueued, "", "", Now()
		var none P
		if err := s.update(ctx, before, run, none); err != nil {
			return err
		}
	}
	return nil
}

// Erase removes the rows of a deleted subject: first all but META, so that no late worker
// can commit. With withMeta it then removes META, as it was read: tablestore.ErrChanged.
// A subject that is not being deleted is left alone. claimed says that a step was running,
// whose worker may still write a blob. Safe to repeat.
//
// A worker may insert a row while the subject is being purged. No query goes over all subjects,
// so its mark stays, and the reconciler erases such a row when the mark is old.
func (s *Store[V, P]) Erase(ctx context.Context, id ID, withMeta bool) (claimed bool, _ error) {
	rec, err := s.Get(ctx, id)
	there := !errors.Is(err, ErrNotFound)
	if there && (err != nil || rec.Meta().State != Deleting) {
		return false, err
	}
	rows := rowsOf(id, "")
	rows.Filter = "State eq " + tablestore.Quote(string(RunRunning))
	running, err := s.subjects.First(ctx, rows, 1)
	claimed = len(running) > 0
	if err == nil {
		rows.Filter = "RowKey ne " + tablestore.Quote(MetaKey)
		_, err = s.subjects.Clear(ctx, rows)
	}
	if err != nil || !withMeta {
		return claimed, err
	}
	mark, err := s.InflightMark(ctx, id) // says whose it was, also when an earlier delivery has removed META
	if there && err == nil {
		if err = s.forgetKey(ctx, rec.Meta()); err == nil {
			err = s.subjects.Delete(ctx, string(id), MetaKey, rec.ETag)
		}
	}
	if err != nil {
		return claimed, err
	}
	mark.Erased = true
	return claimed, errors.Join(s.mark(ctx, mark), s.Quotas.CountOwned(ctx, id))
}

// DropGeneration removes plan, runs and product rows of a generation that is not needed any more.
// What was made on request stays. The rows go first and the blobs later, when no row names them: a crash in
// between leaves blobs that the janitor finds, and not rows without blobs. Safe to repeat.
func (s *Store[V, P]) DropGeneration(ctx context.Context, id ID, generation int) error {
	for _, kind := range slices.AppendSeq([]string{"STEP", "NEXT", "PLAN"}, maps.Keys(s.RowKinds)) {
		if _, err := s.subjects.Clear(ctx, rowsOf(id, fmt.Sprintf("%s:%05d", kind, generation))); err != nil {
			return err
		}
	}
	return nil
}
