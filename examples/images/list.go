package main

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

// listTable lists all images, the newest first:
//
//	PartitionKey  "all": one partition, for 2,000 writes a second; examples/hot-key spreads a list
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

// page returns some images and the token of the next page, empty at the end.
func (p *product) page(r *http.Request) (any, error) {
	images := []Listed{}
	_, next, err := p.list.Page(r.Context(), tablestore.Query{
		PartitionKey: all, PageSize: 50, Class: tablestore.RowRange,
		Read: tablestore.Into(&images, func(row tablestore.Entity) (l Listed, err error) { return l, row.Struct(&l) }),
	}, r.URL.Query().Get("after"))
	return map[string]any{"images": images, "next": next}, err
}

// index makes the list follow an image. It is due after each change, any number of times and in
// any order. No transaction spans two partitions: to repeat this makes them equal in the end
// (paper row T8).
func (p *product) index(ctx context.Context, w *work) (commit, error) {
	return commit{}, p.follow(ctx, w.Key.ID)
}

// follow writes the row of an image as it is, or removes it, until the image has not changed
// meanwhile: another run, which knew it later, may have written first.
func (p *product) follow(ctx context.Context, id engine.ID) error {
	mark, err := p.images.InflightMark(ctx, id) // outlives the image for a while
	if err != nil {
		return err
	}
	for written := "nothing yet"; ; {
		now, err := p.images.Get(ctx, id)
		m := now.Meta()
		if errors.Is(err, engine.ErrNotFound) {
			m.CreatedAt, err = mark.CreatedAt, nil
		}
		if err == nil && now.ETag == written {
			// Without this the reconciler would send the step again.
			return p.images.MarkIndexed(ctx, mark, m.UpdatedAt)
		}
		key := tablestore.Join(tablestore.InvertedTime(m.CreatedAt), string(id))
		switch {
		case err != nil:
		case m.State.Gone():
			err = p.list.Delete(ctx, all, key, tablestore.AnyETag)
		default:
			_, err = p.list.Upsert(ctx, tablestore.Entity{
				PartitionKey: all, RowKey: key, Props: tablestore.Props(Listed{id, now.Subject.Name, m.State, m.CreatedAt}),
			})
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", id, err)
		}
		written = now.ETag
	}
}

// purge removes everything of a deleted image: rows, so that no late worker can commit; the row
// of the list; blobs; and at last META, which says until then that the image is deleted. One
// that was killed is repeated from the start.
func (p *product) purge(ctx context.Context, w *work) (none commit, _ error) {
	id := w.Key.ID
	now, err := p.images.Get(ctx, id)
	gone := errors.Is(err, engine.ErrNotFound) // an earlier delivery was killed at the end
	if !gone && (err != nil || now.Subject.State != engine.Deleting) {
		return none, err
	}
	claimed, err := p.images.Erase(ctx, id, false)
	if err == nil {
		err = p.follow(ctx, id)
	}
	for _, container := range []string{engine.MediaContainer, engine.SourcesContainer} {
		err = errors.Join(err, p.blobs.DeletePrefix(ctx, container, engine.Prefix(id)))
	}
	switch {
	case err != nil:
		return none, err
	case claimed || w.Again: // a worker was at it, and may write once more before it notices
		return none, azq.Snooze(p.pace, "a worker was still busy with the image")
	}
	_, err = p.images.Erase(ctx, id, true)
	return none, err
}
