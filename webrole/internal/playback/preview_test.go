package playback

import (
	"net/http"
	"testing"

	"github.com/cutroom/cutroom/shared/previews"
)

func init() {
	withPreview = func(c *committed, all committed) {
		pictures, sound := *all.Chunks[1], all.Parts[1]
		pictures.Renditions, sound.First = pictures.Renditions[1:], 2
		c.preview = previews.Show(c.Presentation, map[int]previews.Preview{1: {Chunk: 1, Pictures: pictures, Sound: &sound}})
	}
}

// What is not committed plays at addresses of previews.
func TestPreviewsAreServed(t *testing.T) {
	t.Parallel()
	fix := newFixture(t)
	for path, query := range map[string]string{"360p/3.m4s": "from=1&preview=1", "audio/3.m4s": "preview=1"} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			if w := fix.ask(1, method, string(ourID), path, query); w.Code != http.StatusOK || method == http.MethodGet && w.Body.Len() == 0 {
				t.Errorf("%s %s: %d with %d bytes %s", method, path, w.Code, w.Body.Len(), w.Body)
			}
		}
		if w := fix.ask(1, http.MethodGet, string(ourID), path, ""); w.Code != http.StatusNotFound {
			t.Errorf("%s is served as committed: %d", path, w.Code)
		}
	}
	if len(fix.odd) != 0 {
		t.Errorf("storage is asked for %v", fix.odd)
	}
}
