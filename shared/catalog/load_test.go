package catalog

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/video"
)

// TestLoad: a loaded catalogue has the rows that Syncs would have written, for
// fewer requests, and later Syncs keep them.
func TestLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var all []video.Video
	for i := range 60 {
		v := newVideo("Film", []string{"one", "two"}[i%2], january.Add(time.Duration(i)*time.Hour))
		if i%10 == 0 {
			v.Visibility = video.Private
		}
		w.Put(v)
		all = append(all, v)
	}
	ctx, meter := azstore.WithCounter(t.Context())
	for range 2 {
		if _, err := w.Load(ctx, all); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(w.model(t), w.dump(t)); diff != "" {
			t.Fatalf("rows (-want +got):\n%s", diff)
		}
	}
	if n := meter.Requests() / 2; n > 100 { // 54 back-references, and few transactions for the lists
		t.Errorf("%d requests for 54 videos", n)
	}
	moved := all[1]
	moved.Title, moved.Channel = "Moved", "three"
	w.sync(t, moved)
	w.Gone(all[2].ID)
	if err := w.Remove(t.Context(), all[2].ID); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(w.model(t), w.dump(t)); diff != "" {
		t.Errorf("rows after an edit and a removal (-want +got):\n%s", diff)
	}
}
