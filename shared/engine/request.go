package engine

import (
	"context"
	"errors"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// A run of a step on request is a run like the others, with three differences. It is requested,
// so its row exists before its message. The subject need not be processed. It fails alone. Its
// row sorts before META and is not part of View, so the number of such rows does not make
// reading a subject slower.

// IsOpen is the filter for runs that have not ended.
var IsOpen = "State eq " + tablestore.Quote(string(RunQueued)) + " or State eq " + tablestore.Quote(string(RunRunning))

// Requests returns a page of a subject's runs of a step on request, in the order of their keys,
// and the token of the next page, empty at the end. Runs that check refuses are left out, like
// those that cannot be read; check may be nil. tablestore.ErrToken for a token that is not ours.
func (s *Store[V, P]) Requests(
	ctx context.Context, id ID, step string, limit int, token string, check func(Run) error,
) (runs []Run, next string, err error) {
	query := rowsOf(id, requestKind(step))
	query.PageSize = int32(limit)
	query.Read = tablestore.Into(&runs, func(row tablestore.Entity) (Run, error) {
		run, err := readRun(row)
		if err == nil && check != nil {
			err = check(run)
		}
		return run, err
	})
	_, next, err = s.subjects.Page(ctx, query, token)
	return runs, next, err
}

// HasRequests reports whether a subject has so many runs of a step on request that a filter
// selects. The answer is valid while META is unchanged, because a request changes META's ETag.
func (s *Store[V, P]) HasRequests(ctx context.Context, id ID, step, filter string, limit int) (bool, error) {
	query := rowsOf(id, requestKind(step))
	query.Filter, query.Select = filter, []string{"State"}
	found, err := s.subjects.First(ctx, query, limit)
	return len(found) >= limit, err
}

func (d Declaration) requestMessage(m Meta, key Key) OutboxMessage {
	step := d.StepOf(key)
	return OutboxMessage{Queue: d.QueueOf(step, m, Plan{}, key.Index), Key: key, Version: m.ItemVersion, Declared: step}
}

// Request asks for a run on request and returns it. One transaction writes its row, queued,
// and promises its item; then the item is sent. prepare gets the subject and the row, whose
// State is empty when there is none, and says whether anything is to be asked for. It runs
// again when META or the row has changed meanwhile.
func (s *Store[V, P]) Request(ctx context.Context, key Key, prepare func(subject V, request *Run) (bool, error)) (Run, error) {
	for {
		rec, err := s.Get(ctx, key.ID)
		if err == nil && rec.Meta().State.Gone() {
			err = ErrNotFound
		}
		if err != nil {
			return Run{}, err
		}
		request, err := s.ReadRun(ctx, key)
		if err != nil && !errors.Is(err, ErrNoRun) {
			return Run{}, err
		}
		if wanted, err := prepare(rec.Subject, &request); err != nil || !wanted {
			return request, err
		}
		if err := s.markAtRest(ctx, rec.Meta()); err != nil {
			return Run{}, err
		}
		// snippet: asked-for
		request.State, request.OwnerMessageID, request.QueuedAt, request.Error = RunQueued, "", Now(), nil
		err = s.promise(ctx, rec, tablestore.Over(request.row(), request.etag), []OutboxMessage{s.requestMessage(rec.Meta(), key)})
		// end snippet
		if !tablestore.Overtaken(err) {
			return request, err
		}
	}
}

// DropRequest removes the row of a run on request, if it is as it was read; of a Run with a
// Key alone, however it is. The janitor then finds that no row names its blobs, and work that
// is under way finds no row and ends. ErrChanged, ErrNoRun.
func (s *Store[V, P]) DropRequest(ctx context.Context, asked Run) error {
	_, err := s.subjects.Submit(ctx, []tablestore.Op{{Kind: tablestore.OpDelete, Entity: asked.row(), IfMatch: asked.etag}})
	switch {
	case errors.Is(err, tablestore.ErrNotFound):
		return ErrNoRun
	case errors.Is(err, tablestore.ErrChanged):
		return ErrChanged
	}
	return err
}
