package upload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
	"github.com/cutroom/cutroom/shared/provision"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

// role is a web role as far as uploads need one.
type role struct {
	*Service
	videos *videostore.Store
	blobs  *blobstore.Store
	queues *azq.Client
}

func roleOn(account *azstore.Account) role {
	blobs, queues := blobstore.New(account), azq.Open(account, azq.Options{Queues: workflow.Specs})
	videos := videostore.New(account, queues)
	return role{New(account, blobs, videos, 64<<20), videos, blobs, queues}
}

// upload is what a client asks of a role: begin, the parts that are missing, begin again,
// complete. The parts go by another way, as they go past the web role.
func (r role) upload(ctx context.Context, id engine.ID, content []byte, whole role) error {
	size := int64(len(content))
	rec, err := r.videos.Get(ctx, id)
	if err != nil {
		return err
	}
	sending, err := r.Begin(ctx, rec, size, false)
	if err != nil {
		return err
	}
	if rec, err = r.videos.Get(ctx, id); err != nil {
		return err
	}
	layout, _ := sourceparts.LayoutOf(rec.Subject.Upload)
	for _, part := range sending.Send {
		at := layout.Range(part.Number)
		_, err := whole.blobs.Put(ctx, engine.SourcesContainer, sourceparts.Name(id, layout, part.Number),
			content[at.Offset:at.Offset+at.Length], blobstore.Options{IfNoneMatch: true})
		if err != nil && !errors.Is(err, blobstore.ErrExists) {
			return err
		}
	}
	if _, err := r.Begin(ctx, rec, size, false); err != nil {
		return err
	}
	if rec, err = r.videos.Get(ctx, id); err != nil {
		return err
	}
	_, err = r.Complete(ctx, rec.Subject, nil)
	return err
}

// A web role dies at each of the requests of an upload, which then arrived or did not.
// The client repeats what it asked, at another web role: the upload is complete, its
// source is the file, and the first step is promised.
func TestAnUploadSurvivesTheDeathOfItsWebRole(t *testing.T) {
	azuritetest.Slow(t, "makes thousands of requests")
	t.Parallel()
	outer, account := t, azuritetest.Account(t) // which is deleted when this test ends
	whole := roleOn(account)
	if err := provision.Ensure(t.Context(), account, whole.queues); err != nil {
		t.Fatal(err)
	}
	content := make([]byte, sourceparts.PartBytes+1000)
	copy(content, "\x00\x00\x00\x20ftypisom\x00\x00\x02\x00isomiso2avc1mp41")
	var ids sync.Map
	t.Run("dies", func(t *testing.T) {
		for name, fault := range map[string]inject.Fault{"before": inject.Reset, "after": inject.LostReply} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for n := 0; ; n++ {
					v := video.Video{
						Meta: engine.Meta{
							ID: engine.NewID(), Channel: "tests", State: engine.AwaitingUpload,
							Priority: engine.Normal, SizeBytes: int64(len(content)), CreatedAt: time.Now().UTC(),
						},
						Title: "A film", Visibility: video.Public,
					}
					if _, err := whole.videos.Create(t.Context(), v); err != nil {
						t.Fatal(err)
					}
					ids.Store(v.ID, n)
					dying := roleOn(azuritetest.FaultyAccount(outer, account, inject.DiesAt(n, fault)))
					died := dying.upload(t.Context(), v.ID, content, whole)
					if died != nil {
						if err := whole.upload(t.Context(), v.ID, content, whole); err != nil && !errors.Is(err, engine.ErrState) { // or it was complete
							t.Fatalf("died at request %d of %v; repeated: %v", n, died, err)
						}
					}
					if err := whole.isWhole(t.Context(), v.ID, content); err != nil {
						t.Errorf("died at request %d of %v: %v", n, died, err)
					}
					if died == nil {
						t.Logf("%d requests", n)
						if n < 10 {
							t.Errorf("only %d requests: this test shows little", n)
						}
						return
					}
				}
			})
		}
	})
	sent := whole.sent(t)
	ids.Range(func(id, n any) bool {
		if !sent[string(id.(engine.ID))] {
			t.Errorf("died at request %v: the first step was never sent", n)
		}
		return true
	})
}

// sent are the subjects of the messages in the queues of the first step.
func (r role) sent(t *testing.T) map[string]bool {
	t.Helper()
	subjects := map[string]bool{}
	for _, spec := range r.queues.Specs() {
		for slices.Contains(workflow.Declaration.Only(engine.First).Queues, spec.Base()) {
			leases, err := r.queues.Queue(spec.Name).Receive(t.Context(), azq.MaxBatch)
			if err != nil {
				t.Fatal(err)
			}
			if len(leases) == 0 {
				break
			}
			for _, lease := range leases {
				item, err := lease.Item()
				if err != nil {
					t.Fatal(err)
				}
				subjects[item.Subject] = true
			}
		}
	}
	return subjects
}

// isWhole compares the source with the file, and sends what is promised still.
func (r role) isWhole(ctx context.Context, id engine.ID, content []byte) error {
	if err := r.videos.Flush(ctx, id); err != nil { // as the reconciler does
		return err
	}
	view, err := r.videos.View(ctx, id)
	if err != nil {
		return err
	}
	if view.Subject.State != engine.Uploaded || view.Subject.SizeBytes != int64(len(content)) || view.Unsent {
		return fmt.Errorf("state %s, %d bytes, promised %v", view.Subject.State, view.Subject.SizeBytes, view.Unsent)
	}
	layout, _ := sourceparts.LayoutOf(view.Subject.Upload)
	for n := range layout.Count() {
		at := layout.Range(n)
		got, err := r.blobs.Get(ctx, engine.SourcesContainer, sourceparts.Name(id, layout, n))
		if err != nil || !bytes.Equal(got, content[at.Offset:at.Offset+at.Length]) {
			return fmt.Errorf("part %d has %d bytes, %w", n, len(got), err)
		}
	}
	return nil
}
