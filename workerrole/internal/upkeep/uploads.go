package upkeep

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
)

// tidy removes what the keys of an upload wrote that no row names: parts of a wrong
// length, for a key bounds none, and parts of uploads that were given up. Safe to repeat.
func (r *Reconciler) tidy(ctx context.Context, v video.Video) error {
	if _, inParts := sourceparts.LayoutOf(v.Upload); !inParts && v.GivenUp == 0 {
		return nil // no key was given
	}
	var parts []string
	for info, err := range r.Blobs.List(ctx, video.SourcesContainer, video.PartsPrefix(v.ID)) {
		if err != nil {
			return fmt.Errorf("list parts of %s: %w", v.ID, err)
		}
		parts = append(parts, info.Name)
	}
	// Read after the list, the row names the newest upload that was listed.
	now, err := r.Videos.Get(ctx, v.ID)
	if errors.Is(err, videostore.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	l, inParts := sourceparts.LayoutOf(now.Video.Upload)
	for _, name := range parts {
		if inParts && strings.HasPrefix(name, sourceparts.Prefix(v.ID, l.Epoch)) {
			continue
		}
		if _, err := r.Blobs.Delete(ctx, video.SourcesContainer, name, ""); err != nil {
			return fmt.Errorf("remove a part of %s that was given up: %w", v.ID, err)
		}
	}
	if !inParts || v.State != video.AwaitingUpload {
		return nil // a complete upload has every part, in its right length
	}
	_, err = sourceparts.Held(ctx, r.Blobs, v.ID, l)
	return err
}

// settle removes the mark of a video of which all is done. When uploads of it were given
// up, their keys must have ended before.
func (r *Reconciler) settle(ctx context.Context, mark videostore.Inflight, view videostore.View) (healthy bool, _ error) {
	if view.Video.GivenUp > 0 && !view.Video.UploadedAt.IsZero() {
		if time.Since(view.Video.UploadedAt) < r.KeyLife {
			return true, nil
		}
		if err := r.tidy(ctx, view.Video); err != nil {
			return false, err
		}
	}
	return false, r.Videos.ClearInflight(ctx, mark)
}
