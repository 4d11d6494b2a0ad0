package step_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
	"github.com/cutroom/cutroom/shared/provision"
	"github.com/cutroom/cutroom/shared/video"
)

// A blob that a policy of the account keeps delays the purge and does not fail it (H21).
func TestPurgeWaitsForImmutableBlobs(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Containers: provision.Containers, Tables: provision.Tables}); err != nil {
		t.Fatal(err)
	}
	box := &enginetest.Mailbox{}
	var kept atomic.Bool
	kept.Store(true)
	w := newWorker(azuritetest.FaultyAccount(t, a, func(r *http.Request) inject.Fault {
		if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, engine.MediaContainer) && kept.Load() {
			return inject.Immutable
		}
		return inject.None
	}), box)
	v := video.Video{
		Meta:  engine.Meta{ID: engine.NewID(), Channel: "c", State: engine.Ready, Priority: engine.Normal, CreatedAt: time.Now()},
		Title: "kept", Visibility: video.Public,
	}
	if _, err := w.index.Videos.Create(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	if _, err := w.purge.Blobs.Put(t.Context(), engine.MediaContainer, engine.Prefix(v.ID)+"blob", []byte("x"), blobstore.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.index.Videos.Delete(t.Context(), v.ID, ""); err != nil {
		t.Fatal(err)
	}
	item := box.Items[len(box.Items)-1]
	err := w.handle(t.Context(), item)
	if fate, wait := azq.FateOf(err); fate != azq.FateSnoozed || wait < time.Minute {
		t.Errorf("while the blob is kept: %v", err)
	}
	kept.Store(false)
	if err := w.handle(t.Context(), item); err != nil {
		t.Errorf("when it may go: %v", err)
	}
}
