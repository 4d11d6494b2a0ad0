package playback

import (
	"container/list"
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
)

// maxViews is how many generations are remembered. Committed rows never change,
// so a remembered view is never wrong; it can only be incomplete, and then it is
// read again.
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

// views remembers the newest view of the generations that are being played.
type views struct {
	store *videostore.Store

	mu     sync.Mutex
	order  *list.List // of viewKey, most recently used first
	places map[viewKey]*list.Element
	known  map[viewKey]committed
}

func newViews(store *videostore.Store) *views {
	return &views{store: store, order: list.New(), places: map[viewKey]*list.Element{}, known: map[viewKey]committed{}}
}

// get returns a view that satisfies enough, if there is one: a remembered one,
// or one that is read now. Otherwise it returns the newest there is.
func (v *views) get(ctx context.Context, id video.ID, generation int, enough func(committed) bool) (committed, error) {
	key := viewKey{id, generation}
	if c, found := v.lookup(key); found && enough(c) {
		return c, nil
	}
	view, err := v.store.View(ctx, id)
	if err != nil {
		return committed{}, err
	}
	var c committed
	if c.Presentation, err = view.Presentation(generation); err != nil {
		return committed{}, fmt.Errorf("collect %s: %w", id, err)
	}
	if step, found := view.Find(generation, videostore.StepFinish, 0); found && step.State == videostore.StepDone {
		c.finish = new(video.FinishOutput)
		if err := json.Unmarshal(step.Output, c.finish); err != nil {
			return committed{}, fmt.Errorf("decode finish of %s: %w", id, err)
		}
	}
	v.remember(key, c)
	return c, nil
}

func (v *views) lookup(key viewKey) (committed, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c, found := v.known[key]
	if found {
		v.order.MoveToFront(v.places[key])
	}
	return c, found
}

func (v *views) remember(key viewKey, c committed) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if place, found := v.places[key]; found {
		v.order.MoveToFront(place)
	} else {
		v.places[key] = v.order.PushFront(key)
	}
	v.known[key] = c
	for v.order.Len() > maxViews {
		oldest := v.order.Back()
		key, _ := v.order.Remove(oldest).(viewKey)
		delete(v.places, key)
		delete(v.known, key)
	}
}
