package upkeep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
)

// Renewer indexes videos again that a release before indexed with other words. Nothing
// else would: a video that is at rest has no mark, so the reconciler does not see it. A
// video that was indexed again is not found a second time, so a pass needs no cursor.
type Renewer struct {
	Search *searchindex.Index
	Videos *videostore.Store
	Log    *slog.Logger
}

// Pass indexes one video after the other, so it leaves the tables to the users.
func (r *Renewer) Pass(ctx context.Context) (pass Pass, _ error) {
	var failed failures
	for id, err := range r.Search.Outdated(ctx) {
		if err == nil {
			err = r.renew(ctx, id)
		}
		switch {
		case ctx.Err() != nil:
			return pass, ctx.Err()
		case errors.Is(err, tablestore.ErrUnreadable): // reported by the store
			r.Log.Error("leave a video in the index that cannot be read", "video", id, "error", err)
		case err != nil:
			failed.add(err)
		default:
			pass.Items++
		}
	}
	if pass.Items > 0 {
		r.Log.Info("indexed videos again", "count", pass.Items)
	}
	return pass, failed.err()
}

func (r *Renewer) renew(ctx context.Context, id video.ID) error {
	err := r.Search.Sync(ctx, id, func(ctx context.Context) (video.Video, bool, error) {
		rec, err := r.Videos.Get(ctx, id)
		if errors.Is(err, videostore.ErrNotFound) {
			return video.Video{}, false, nil
		}
		return rec.Video, err == nil, err
	})
	if err != nil {
		return fmt.Errorf("index %s again: %w", id, err)
	}
	return nil
}
