package core

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
)

// listTable lists all subjects, the newest first:
//
//	PartitionKey  "all": one partition, for 2,000 writes a second; a recipe spreads a list
//	RowKey        <inverted time of creation>__<id>
const listTable = "list"

const all = "all"

// Listed is a row of the list.
type Listed struct {
	ID        engine.ID    `json:"id"`
	Name      string       `json:"name"`
	State     engine.State `json:"state"`
	CreatedAt time.Time    `json:"createdAt"`
}

// page returns some subjects and the token of the next page, empty at the end.
func (s *Service[P]) page(r *http.Request) (any, error) {
	items := []Listed{}
	_, next, err := s.list.Page(r.Context(), tablestore.Query{
		PartitionKey: all, PageSize: 50, Class: tablestore.RowRange,
		Read: tablestore.Into(&items, func(row tablestore.Entity) (l Listed, err error) { return l, row.Struct(&l) }),
	}, r.URL.Query().Get("pageToken"))
	return map[string]any{"items": items, "nextPageToken": next}, err
}

// index makes the list follow a subject. It is due after each change, any number of times and in
// any order. No transaction spans two partitions: to repeat this makes them equal in the end
// (paper row T8).
func (s *Service[P]) index(ctx context.Context, w *Work[P]) (none Commit[P], _ error) {
	return none, s.follow(ctx, w.Key.ID)
}

// follow writes the row of a subject as it is, or removes it, until the subject has not changed
// meanwhile: another run, which knew it later, may have written first.
func (s *Service[P]) follow(ctx context.Context, id engine.ID) error {
	mark, err := s.Subjects.InflightMark(ctx, id) // outlives the subject for a while
	if err != nil {
		return err
	}
	for written := "nothing yet"; ; {
		now, err := s.Subjects.Get(ctx, id)
		m := now.Meta()
		if errors.Is(err, engine.ErrNotFound) {
			m.CreatedAt, err = mark.CreatedAt, nil
		}
		if err == nil && now.ETag == written {
			// Without this the reconciler would send the step again.
			return s.Subjects.MarkIndexed(ctx, mark, m.UpdatedAt)
		}
		key := tablestore.Join(tablestore.InvertedTime(m.CreatedAt), string(id))
		switch {
		case err != nil:
		case m.State.Gone():
			err = s.list.Delete(ctx, all, key, tablestore.AnyETag)
		default:
			_, err = s.list.Upsert(ctx, tablestore.Entity{
				PartitionKey: all, RowKey: key, Props: tablestore.Props(Listed{id, now.Subject.Name, m.State, m.CreatedAt}),
			})
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", id, err)
		}
		written = now.ETag
	}
}

// purge removes everything of a deleted subject: rows, so that no late worker can commit; the
// row of the list; blobs; and at last META, which says until then that the subject is deleted.
// One that was killed is repeated from the start.
func (s *Service[P]) purge(ctx context.Context, w *Work[P]) (none Commit[P], _ error) {
	id := w.Key.ID
	now, err := s.Subjects.Get(ctx, id)
	gone := errors.Is(err, engine.ErrNotFound) // an earlier delivery was killed at the end
	if !gone && (err != nil || now.Subject.State != engine.Deleting) {
		return none, err
	}
	claimed, err := s.Subjects.Erase(ctx, id, false)
	if err == nil {
		err = s.follow(ctx, id)
	}
	for _, container := range []string{engine.MediaContainer, engine.SourcesContainer} {
		err = errors.Join(err, s.Blobs.DeletePrefix(ctx, container, engine.Prefix(id)))
	}
	switch {
	case err != nil:
		return none, err
	case claimed || w.Again: // a worker was at it, and may write once more before it notices
		return none, azq.Snooze(s.Pace, "a worker was still busy with the subject")
	}
	_, err = s.Subjects.Erase(ctx, id, true)
	return none, err
}
