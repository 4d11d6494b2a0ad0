package videostore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cutroom/cutroom/shared/tablestore"
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
	switch {
	case errors.Is(err, errNoStep) && key.Language != "":
		return Step{}, ErrNoCaptions
	case errors.Is(err, errNoStep):
		return Step{}, ErrNoClip
	}
	return step, err
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
	if err != nil {
		return false, fmt.Errorf("count requests of %s: %w", id, err)
	}
	return len(found) >= limit, nil
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
		_, err = s.videos.Submit(ctx, []tablestore.Op{unchangedMeta(rec), written(request.row(), request.etag), written(out[0], "")})
		// end snippet
		switch {
		case err == nil:
			return request, s.sendRows(ctx, key.ID, out)
		case !tablestore.Overtaken(err):
			return Step{}, fmt.Errorf("ask for %s: %w", key, err)
		}
	}
}

// DropRequest removes the row of a step on request, if the row is as it was read. The janitor
// then finds that no row names its blobs, and work that is under way finds no row and ends.
// False when the row has changed and stays. Safe to repeat.
func (s *Store) DropRequest(ctx context.Context, asked Step) (bool, error) {
	err := s.videos.Delete(ctx, string(asked.Key.ID), asked.Key.RowKey(), asked.etag)
	if errors.Is(err, tablestore.ErrChanged) {
		return false, nil
	}
	if err != nil && !errors.Is(err, tablestore.ErrNotFound) {
		return false, fmt.Errorf("remove %s: %w", asked.Key, err)
	}
	return true, nil
}
