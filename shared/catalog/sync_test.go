package catalog

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/indexrows"
	"github.com/cutroom/cutroom/shared/video"
)

// later makes the notes of dead runs old.
func later() time.Time { return time.Now().Add(2 * indexrows.Expiry) }

// A worker dies at every possible request of a move to another channel; the
// repeated item must end with the rows of the model, and between the two the
// video must be in some channel.
func TestCrashBetweenPartitions(t *testing.T) {
	t.Parallel()
	for _, fault := range []inject.Fault{inject.Reset, inject.LostReply} {
		for at := 0; ; at++ {
			w := newWorld(t)
			v := newVideo("old", "one", january)
			w.sync(t, v)
			v.Title, v.Channel = "new", "two"
			w.Put(v)
			dying := w.faulty(t, inject.DiesAt(at, fault))
			failed := dying.Sync(t.Context(), v.ID, w.Current(v.ID)) != nil
			seen := 0
			for _, channel := range []string{"one", "two"} {
				page, _, err := w.Channel(t.Context(), channel, Newest, 10, "")
				if err != nil {
					t.Fatal(err)
				}
				seen += len(page)
			}
			if seen == 0 {
				t.Errorf("fault %v at request %d: the video is nowhere", fault, at)
			}
			w.Keeper.Now = later
			w.sync(t, v)
			if diff := cmp.Diff(w.model(t), w.dump(t)); diff != "" {
				t.Errorf("fault %v at request %d (-want +got):\n%s", fault, at, diff)
			}
			if !failed {
				if at < 5 {
					t.Errorf("only %d requests in a Sync", at)
				}
				break
			}
		}
	}
}

// A worker dies while it makes a video known; then the video is deleted.
func TestRemoveAfterACrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := newVideo("v", "one", january)
	w.Put(v)
	dying := w.faulty(t, inject.DiesAt(4, inject.Reset)) // after reference, note, two partitions; before the report
	if err := dying.Sync(t.Context(), v.ID, w.Current(v.ID)); err == nil {
		t.Fatal("nothing failed")
	}
	if len(w.dump(t)) != 4 {
		t.Fatalf("want the crash after the rows: %v", w.dump(t))
	}
	w.Gone(v.ID)
	if err := w.Remove(t.Context(), v.ID); !errors.Is(err, indexrows.ErrBusy) {
		t.Errorf("Remove next to a run that may live: %v, want ErrBusy", err)
	}
	if got := w.dump(t); len(got) != 1 {
		t.Errorf("want the back-reference only: %v", got)
	}
	w.Keeper.Now = later
	if err := w.Remove(t.Context(), v.ID); err != nil {
		t.Errorf("Remove after the note has expired: %v", err)
	}
	if got := w.dump(t); len(got) != 0 {
		t.Errorf("rows are left: %v", got)
	}
}

// A worker stalls between reading the truth and writing, at the worst moments,
// while another does the whole job.
func TestAStalledWorkerRepairsWhatItSpoils(t *testing.T) {
	t.Parallel()
	for _, after := range []string{"edit", "private", "removal"} {
		for stallAt := 1; stallAt <= 2; stallAt++ { // before the note, after the note
			t.Run(fmt.Sprintf("%s at read %d", after, stallAt), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				v := newVideo("old", "one", january)
				w.Put(v)
				reads := 0
				err := w.Sync(t.Context(), v.ID, func(ctx context.Context) (video.Video, bool, error) {
					old, ok, err := w.Current(v.ID)(ctx)
					if reads++; reads != stallAt {
						return old, ok, err
					}
					switch after { // the others' whole story, while we sleep
					case "edit":
						v.Title, v.Channel = "new", "two"
						w.sync(t, v)
					case "private":
						v.Visibility = video.Private
						w.Put(v)
						if err := w.Sync(ctx, v.ID, w.Current(v.ID)); err != nil && !errors.Is(err, indexrows.ErrBusy) {
							t.Error(err)
						}
					case "removal":
						w.Gone(v.ID)
						if err := w.Remove(ctx, v.ID); err != nil && !errors.Is(err, indexrows.ErrBusy) {
							t.Error(err)
						}
					}
					return old, ok, err // what was true before
				})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(w.model(t), w.dump(t)); diff != "" {
					t.Errorf("rows (-want +got):\n%s", diff)
				}
			})
		}
	}
}
