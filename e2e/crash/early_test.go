package crash_test

import (
	"bytes"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// A worker is killed while it works on an upload that is going on, and comes back when
// the upload is complete. What was made before and after is what an upload that nothing
// disturbed becomes.
func TestKilledWhileItUploads(t *testing.T) {
	t.Parallel()
	l := newLane(t, 6*time.Second)
	worker := l.worker("victim", oneEncoder)
	for _, point := range []string{"probe/output", "encode/output", "encode/committed"} {
		marker := l.arm(worker, point, "kill")
		u := l.begin(growing)
		u.part(0)
		u.part(u.layout.Count() - 1)
		for n := range u.layout.Count() / 2 {
			u.part(n)
		}
		l.await(2*time.Minute, "death at "+point, func() bool {
			u.arrived()
			_, err := os.Stat(marker)
			return err == nil
		})
		l.dead(worker, marker)
		if view := l.view(u.id); view.Video.State != video.AwaitingUpload || len(u.sent) == u.layout.Count() {
			t.Errorf("%s: killed in state %s, with %d of %d parts", point, view.Video.State, len(u.sent), u.layout.Count())
		}
		l.revive(worker)
		u.complete()
		l.ready(u.id)
		l.equalsUninterrupted(growing, u.id)
		if _, err := l.videos.Delete(t.Context(), u.id, ""); err != nil {
			t.Fatal(err)
		}
		l.gone(u.id, 2*time.Minute)
	}
}

// An upload that is given up leaves nothing of what was made of it.
func TestAbandonedUploadLeavesNothing(t *testing.T) {
	t.Parallel()
	l := newLaneOn(t, world.connection, 6*time.Second, "CUTROOM_ABANDON_AFTER=30s")
	l.worker("steady")
	u := l.begin(growing)
	for n := range u.layout.Count() * 2 / 3 {
		u.part(n)
	}
	u.part(u.layout.Count() - 1)
	l.await(2*time.Minute, "a chunk", func() bool {
		u.arrived()
		return slices.ContainsFunc(l.view(u.id).Steps, func(s videostore.Step) bool {
			return s.Key.Step == workflow.StepEncode && s.State == videostore.StepDone
		})
	})
	l.gone(u.id, 3*time.Minute)
}

// sending is an upload in parts that a test sends one after the other.
type sending struct {
	*lane
	id      video.ID
	layout  sourceparts.Layout
	content []byte
	sent    map[int]bool
}

// begin announces a video and lays out its file in 24 parts.
func (l *lane) begin(c *clip) *sending {
	l.t.Helper()
	path, err := c.path()
	if err != nil {
		l.t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		l.t.Fatal(err)
	}
	u := &sending{lane: l, content: content, sent: map[int]bool{}}
	if u.id, err = l.create("Crash early", nil); err != nil {
		l.t.Fatal(err)
	}
	u.layout = sourceparts.Layout{Bytes: int64(len(content)), PartBytes: int64(len(content)/24 + 1), Epoch: "e"}
	_, err = l.videos.Change(l.t.Context(), u.id, "", func(v *video.Video) ([]videostore.Intent, error) {
		v.Upload = &video.Upload{Bytes: u.layout.Bytes, PartBytes: u.layout.PartBytes, Epoch: u.layout.Epoch}
		return nil, nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return u
}

func (u *sending) part(n int) {
	u.t.Helper()
	if u.sent[n] {
		return
	}
	u.sent[n] = true
	r := u.layout.Range(n)
	_, err := u.blobs.Put(u.t.Context(), video.SourcesContainer, sourceparts.Name(u.id, u.layout, n),
		bytes.NewReader(u.content[r.Offset:r.Offset+r.Length]), r.Length, blobstore.Options{IfNoneMatch: true})
	if err != nil {
		u.t.Fatal(err)
	}
}

func (u *sending) held() []sourceparts.Part {
	u.t.Helper()
	held, err := sourceparts.Held(u.t.Context(), u.blobs, u.id, u.layout)
	if err != nil {
		u.t.Fatal(err)
	}
	return held
}

// arrived tells of what is held, and sends what is wanted.
func (u *sending) arrived() {
	u.t.Helper()
	rec, err := u.videos.Arrived(u.t.Context(), u.id, u.held())
	if err != nil {
		u.t.Fatal(err)
	}
	for _, n := range rec.Video.Upload.Wants {
		u.part(n)
	}
}

func (u *sending) complete() {
	u.t.Helper()
	for n := range u.layout.Count() {
		u.part(n)
	}
	etag, err := sourceparts.PutManifest(u.t.Context(), u.blobs, u.id, sourceparts.Manifest{Layout: u.layout, Parts: u.held()})
	if err == nil {
		_, err = u.videos.UploadedInParts(u.t.Context(), u.id, u.layout.Epoch, u.layout.Bytes, etag)
	}
	if err != nil {
		u.t.Fatal(err)
	}
}
