// Package indexrowstest plays the truth that derived rows follow, for the tests
// of the indexes.
package indexrowstest

import (
	"context"
	"maps"
	"sync"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/indexrows"
	"github.com/cutroom/cutroom/shared/video"
)

// Truth is what the table of videos says. The zero value is empty. It is safe
// for concurrent use.
type Truth struct {
	mu     sync.Mutex
	videos map[engine.ID]video.Video
}

// Put writes a video.
func (t *Truth) Put(v video.Video) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.videos == nil {
		t.videos = map[engine.ID]video.Video{}
	}
	t.videos[v.ID] = v
}

// Gone deletes a video.
func (t *Truth) Gone(id engine.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.videos, id)
}

// Videos returns a copy of all.
func (t *Truth) Videos() map[engine.ID]video.Video {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.videos)
}

// Current is how an index reads the truth about one video.
func (t *Truth) Current(id engine.ID) indexrows.Current {
	return func(context.Context) (video.Video, bool, error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		v, ok := t.videos[id]
		return v, ok, nil
	}
}
