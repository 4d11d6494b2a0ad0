package playback

import (
	"context"
	"fmt"
	"time"

	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/recent"
)

// maxViews is how many generations are remembered. Committed rows never
// change and no id is used twice, so a remembered view is never wrong; it can
// only be incomplete, and then it is read again.
const maxViews = 64

type viewKey struct {
	id         video.ID
	generation int
}

// committed is what is committed of one generation, as of one reading.
type committed struct {
	playlist.Presentation
	finish *video.FinishOutput // nil until the finish step is done
}

// complete reports that nothing can be added.
func (c committed) complete() bool { return c.finish != nil }

// newViews remembers the newest view of the generations that are being played.
func newViews(store *videostore.Store) *recent.Cache[viewKey, committed] {
	return recent.New(maxViews, func(ctx context.Context, key viewKey) (c committed, _ error) {
		view, err := store.View(ctx, key.id)
		if err != nil {
			return c, err
		}
		if c.Presentation, err = view.Presentation(key.generation); err != nil {
			return c, fmt.Errorf("collect %s: %w", key.id, err)
		}
		whole, done, err := view.Whole(key.generation)
		if done {
			c.finish = &whole
		}
		return c, err
	})
}

// view returns what is committed of the generation that q asks for: a remembered
// view if it is complete or has what is wanted, else one that is read now.
func (s *Service) view(ctx context.Context, q request, has func(committed) bool) (committed, error) {
	if q.generation > q.video.Generation { // META knows: nothing is read, and no view makes room for it
		return committed{}, missing()
	}
	return s.views.Get(ctx, viewKey{q.video.ID, q.generation}, func(c committed, _ time.Duration) bool {
		return c.complete() || has(c)
	})
}
