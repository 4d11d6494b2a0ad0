package early

import (
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
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// The gates of these tests: one that waits for the whole upload, and one that does not.
const (
	stepModerated = "moderated"
	stepRated     = "rated"
)

func TestMain(m *testing.M) {
	workflow.Declaration.Steps = append(workflow.Declaration.Steps,
		engine.Step{Name: stepModerated, Stage: engine.Gate, Queues: []string{workflow.Audio}},
		engine.Step{Name: stepRated, Stage: engine.Gate, Early: true, Queues: []string{workflow.Audio}},
	)
	azuritetest.Main(m)
}

const (
	partsOfUpload = 20
	epoch         = "e"
)

// bench is an upload in parts, and what was promised of it.
type bench struct {
	*testing.T
	videos  *videostore.Store
	uploads *Uploads
	id      engine.ID

	mu       sync.Mutex
	promised []string
}

// Send implements engine.Sender.
func (b *bench) SendItem(_ context.Context, _ string, item azq.Item, _ time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k, err := workflow.Declaration.ParseItemID(item.ID); err == nil && workflow.Declaration.StepOf(k).Stage != engine.OnChange {
		b.promised = append(b.promised, fmt.Sprintf("%d.%s.%d", k.Generation, k.Step, k.Index))
	}
	return nil
}

// Lane implements engine.Sender.
func (*bench) Lane(context.Context, string, bool) (int, bool) { return 0, false }

// Waiting implements engine.Sender.
func (*bench) Waiting(context.Context, string) (bool, error) { return true, nil }

// setup makes a video whose upload comes in parts.
func setup(t *testing.T) *bench {
	t.Helper()
	account := azuritetest.Account(t)
	if err := account.Ensure(t.Context(), azstore.Names{Containers: []string{engine.SourcesContainer}, Tables: videostore.Tables}); err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, id: engine.NewID()}
	b.videos = videostore.New(account, b)
	b.uploads = New(b.videos, blobstore.New(account))
	v := video.Video{
		Meta: engine.Meta{
			ID: b.id, Owner: video.LocalOwner, State: engine.AwaitingUpload, Priority: engine.Normal,
			Upload: &engine.Upload{Bytes: 10 * partsOfUpload, PartBytes: 10, Epoch: epoch},
		},
		Title: "A title",
	}
	if _, err := b.videos.Create(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	return b
}

// arrived says that the first parts are held, and the last two.
func (b *bench) arrived(head int, more ...int) video.Video {
	b.Helper()
	var held []sourceparts.Part
	for n := range partsOfUpload {
		if n < head || n >= partsOfUpload-2 || slices.Contains(more, n) {
			held = append(held, sourceparts.Part{Number: n})
		}
	}
	rec, err := b.uploads.Arrived(b.Context(), b.id, held)
	if err != nil {
		b.Fatal(err)
	}
	return rec.Subject
}

func (b *bench) complete() video.Video {
	b.Helper()
	rec, err := b.videos.Uploaded(b.Context(), b.id, epoch, "etag")
	if err != nil {
		b.Fatal(err)
	}
	return rec.Subject
}

func (b *bench) get() video.Video {
	b.Helper()
	rec, err := b.videos.Get(b.Context(), b.id)
	if err != nil {
		b.Fatal(err)
	}
	return rec.Subject
}

// promises compares what was promised since the last call, but for the step on change.
func (b *bench) promises(what string, want ...string) {
	b.Helper()
	b.mu.Lock()
	got := b.promised
	b.promised = nil
	b.mu.Unlock()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.Errorf("%s: promised %v, want %v", what, got, want)
	}
}

func (b *bench) key(step string, index int) engine.Key {
	return engine.Key{ID: b.id, Generation: 1, Step: step, Index: index}
}

func (b *bench) claim(k engine.Key) *videostore.Claim {
	b.Helper()
	c, err := b.videos.Claim(b.Context(), k, "message "+k.ItemID(), "worker", time.Time{})
	if err != nil {
		b.Fatalf("%s: %v", k, err)
	}
	return c
}

// plan has a chunk for each part and half of the next one, and two portions of sound.
func plan(chunks int) video.Plan {
	p := video.Plan{
		Plan: engine.Plan{Generation: 1}, FPS: video.Rational{Num: 30, Den: 1}, SegmentFrames: 120,
		HasAudio: true, Renditions: []video.Rendition{{Name: "240p", Width: 426, Height: 240, MaxRate: 450_000}},
	}
	for i := range int64(chunks) {
		p.Chunks = append(p.Chunks, video.Chunk{From: i * 120, To: (i + 1) * 120})
	}
	p.Frames = int64(chunks) * 120
	p.DurationSeconds = p.FPS.Seconds(p.Frames)
	p.Sound = []video.SoundPortion{{First: 0, End: 2}, {First: 2, End: chunks + 1}}
	p.Promises = slices.DeleteFunc(workflow.PromisesFor(p), func(p engine.Promise) bool { return p.Gate })
	return p
}

// probed commits a plan.
func (b *bench) probed(c *videostore.Claim, p video.Plan) {
	b.Helper()
	commit := videostore.Commit{Plan: &p, Edit: func(v *video.Video) {
		if v.State == engine.Uploaded {
			v.State = engine.Processing
		}
	}}
	if err := errors.Join(c.Commit(b.Context(), commit), c.SendOutbox(b.Context())); err != nil {
		b.Fatal(err)
	}
}

// ends commits parts.
func (b *bench) ends(step string, indices ...int) {
	b.Helper()
	for _, i := range indices {
		c := b.claim(b.key(step, i))
		commit := videostore.Commit{Output: video.ChunkOutput{Frames: 120}}
		if err := errors.Join(c.Commit(b.Context(), commit), c.SendOutbox(b.Context()), c.Follow(b.Context())); err != nil {
			b.Fatalf("%s %d: %v", step, i, err)
		}
	}
}

// What has arrived is promised and nothing else, never more than a window at once; what
// needs the whole file comes with its completion, and so does the end.
func TestPartsArePromisedAsTheyArrive(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if v := b.arrived(0); v.Working() {
		t.Error("work begins without the first part")
	}
	b.arrived(1)
	v := b.arrived(2) // again
	b.promises("first and last part", "1.probe.0")
	if !v.Working() || v.State != engine.AwaitingUpload {
		t.Errorf("state %s, upload %+v", v.State, v.Upload)
	}
	const chunks = 20 // of 4 s, like the parts
	b.probed(b.claim(b.key(workflow.StepProbe, 0)), plan(chunks))
	b.promises("the plan")
	b.arrived(3)
	b.promises("three parts", "1.encode.0")
	b.arrived(4)
	b.arrived(4)
	b.promises("four parts", "1.encode.1", "1.audio.0")
	b.ends(workflow.StepEncode, 0, 1)
	b.ends(workflow.StepAudio, 0)
	b.promises("what was promised ended, and nothing arrived")
	b.arrived(16)
	b.promises("a window", "1.encode.2", "1.encode.3", "1.encode.4", "1.encode.5", "1.encode.6", "1.encode.7", "1.encode.8", "1.encode.9")
	b.ends(workflow.StepEncode, 2)
	b.promises("a chunk ended")
	b.arrived(16)
	b.promises("a place in the window", "1.encode.10")
	view, err := b.videos.View(t.Context(), b.id)
	if err != nil || len(view.Missing()) > 0 || view.Subject.State != engine.AwaitingUpload {
		t.Errorf("missing %v, state %s, %v", view.Missing(), view.Subject.State, err)
	}
	if err := b.videos.FanIn(t.Context(), b.id); err != nil {
		t.Error(err)
	}
	b.promises("the end before the last byte")

	if v := b.complete(); v.State != engine.Processing || v.SourceETag != "etag" {
		t.Errorf("complete: %s, %q", v.State, v.SourceETag)
	}
	all := []string{"1.audio.1"}
	for i := 3; i < 19; i++ { // what was open, and a window more
		all = append(all, fmt.Sprintf("1.encode.%d", i))
	}
	b.promises("complete", all...)
	b.ends(workflow.StepEncode, 3)
	b.promises("the last chunk", "1.encode.19")
	b.ends(workflow.StepEncode, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19)
	b.ends(workflow.StepAudio, 1)
	b.promises("the end", "1.finish.0")
}

// Chunks wait for the gates also while they arrive: one that is early is asked at once, another
// when the upload is complete.
func TestGatesOfAnUpload(t *testing.T) {
	t.Parallel()
	for _, gate := range []string{stepModerated, stepRated} {
		b := setup(t)
		b.arrived(2)
		b.promises("first and last part", "1.probe.0")
		p := plan(20)
		p.Promises = append(p.Promises, engine.Promise{Step: gate, Items: 1, Gate: true, Queue: workflow.Audio})
		b.probed(b.claim(b.key(workflow.StepProbe, 0)), p)
		if gate == stepRated {
			b.promises("the plan", "1.rated.0")
			b.arrived(3)
			b.promises("before the gate")
			b.ends(gate, 0)
			b.promises("behind the gate nothing has arrived")
			b.arrived(4)
			b.promises("four parts", "1.encode.0", "1.encode.1", "1.audio.0")
		}
		b.arrived(4)
		b.promises("again")
		b.complete()
		if gate == stepModerated {
			b.promises("complete", "1.moderated.0")
			b.ends(gate, 0)
			all := []string{"1.audio.0", "1.audio.1"}
			for i := range 8 {
				all = append(all, fmt.Sprintf("1.encode.%d", i))
			}
			b.promises("behind the gate", all...)
		}
	}
}

// The first step asks for what it misses and is promised again when that has come; after
// a few times, or when it fails, work waits for the whole file, and nothing is final.
func TestEarlyWorkWaits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	begun, probe := time.Now(), b.key(workflow.StepProbe, 0)
	b.arrived(1)
	b.promises("the first step", "1.probe.0")
	missing := &notYetError{parts: []int{15, 16}}
	for tries := 1; ; tries++ {
		if err := b.uploads.Settle(t.Context(), probe, 0, missing); fateOf(err) != azq.FateUnwanted {
			t.Fatalf("it misses parts: %v", err)
		}
		b.arrived(5, 15)
		b.promises("one of two wanted parts")
		if v := b.arrived(5, 15, 16); v.Upload.ProbeTries == maxTries {
			b.promises("too many tries")
			break
		}
		b.promises("both", "1.probe.0")
		if tries > 20 {
			t.Fatal("it looks for ever")
		}
	}
	b.claim(probe)
	if again, err := b.uploads.Exhausted(t.Context(), probe, time.Now()); !again || err != nil || b.get().State != engine.AwaitingUpload {
		t.Errorf("attempts are used up before the last byte: %t, %v, %s", again, err, b.get().State)
	}
	if v := b.complete(); v.State != engine.Uploaded {
		t.Errorf("complete: %s", v.State)
	}
	b.promises("complete", "1.probe.0")
	if err := b.uploads.Settle(t.Context(), probe, 0, missing); fateOf(err) != azq.FateSnoozed {
		t.Errorf("a try that ends after the last byte: %v", err)
	}

	// Attempts on half a file say nothing about the whole one, also when the last of them
	// fails after its last byte, in a worker that could not write how it ended.
	b.claim(probe)
	if again, err := b.uploads.Exhausted(t.Context(), probe, begun); !again || err != nil {
		t.Errorf("attempts that began before the last byte are used up after it: %t, %v", again, err)
	}
	b.promises("used up after the last byte", "1.probe.0")
	if _, err := b.videos.Claim(t.Context(), probe, "a new message", "w", time.Time{}); err != nil {
		t.Errorf("claim for the new message: %v", err)
	}
	if again, err := b.uploads.Exhausted(t.Context(), probe, time.Now()); again || err != nil {
		t.Errorf("attempts on the whole file are used up: %t, %v", again, err)
	}
}

// How a step of an upload that is going on ends.
func TestSettle(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.arrived(1)
	b.probed(b.claim(b.key(workflow.StepProbe, 0)), plan(20))
	chunk, missing, failure, other := b.key(workflow.StepEncode, 0), &notYetError{parts: []int{3}}, engine.Fail(video.CorruptMedia, "broken"), errors.New("other")
	if err := b.uploads.Settle(t.Context(), chunk, 0, other); !errors.Is(err, other) {
		t.Errorf("another error: %v", err)
	}
	if err := b.uploads.Settle(t.Context(), chunk, 0, missing); fateOf(err) != azq.FateSnoozed || b.get().Upload.PriorityParts != nil {
		t.Errorf("a chunk that misses bytes: %v, %+v", err, b.get().Upload)
	}
	if err := b.uploads.Settle(t.Context(), chunk, 0, failure); fateOf(err) != azq.FateUnwanted {
		t.Errorf("a chunk that fails: %v", err)
	}
	b.promises("before the failure", "1.probe.0")
	b.arrived(10)
	b.promises("after a failure")
	b.complete()
	for name, err := range map[string]error{"misses bytes": missing, "fails": failure} {
		if err := b.uploads.Settle(t.Context(), chunk, 0, err); fateOf(err) != azq.FateSnoozed {
			t.Errorf("a chunk that %s, and the upload is complete: %v", name, err)
		}
	}
}

// The upload becomes complete while its plan is made: the plan is as any other.
func TestPlanOfAnUploadThatEndsMeanwhile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.arrived(1)
	c := b.claim(b.key(workflow.StepProbe, 0))
	b.complete()
	b.promises("complete while the first step runs: one of two messages is a duplicate", "1.probe.0", "1.probe.0")
	b.probed(c, plan(3))
	b.promises("the plan", "1.encode.0", "1.encode.1", "1.encode.2", "1.audio.0", "1.audio.1")
	if v := b.get(); v.State != engine.Processing {
		t.Errorf("state %s", v.State)
	}
}

// What is cancelled while it uploads is not worked on; when it is taken up again, what
// was promised is promised again with the last byte.
func TestEarlyWorkIsCancelled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.arrived(1)
	b.probed(b.claim(b.key(workflow.StepProbe, 0)), plan(20))
	b.arrived(4)
	b.promises("at first", "1.probe.0", "1.encode.0", "1.encode.1", "1.audio.0")
	if _, err := b.videos.Cancel(t.Context(), b.id); err != nil {
		t.Fatal(err)
	}
	if _, err := b.videos.Claim(t.Context(), b.key(workflow.StepEncode, 0), "m", "w", time.Time{}); !errors.Is(err, engine.ErrGone) {
		t.Errorf("a chunk of a cancelled upload: %v", err)
	}
	b.arrived(5)
	b.promises("cancelled")
	if _, err := b.videos.Retry(t.Context(), b.id); err != nil {
		t.Fatal(err)
	}
	b.arrived(5)
	b.promises("retried", "1.encode.2")
	b.complete()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, want := range []string{"1.encode.0", "1.encode.1", "1.audio.0", "1.encode.2"} {
		if !slices.Contains(b.promised, want) {
			t.Errorf("complete: promised %v, not %s", b.promised, want)
		}
	}
}

func TestReachIsAProportion(t *testing.T) {
	t.Parallel()
	p := plan(20) // of 80 s
	layout := sourceparts.Layout{Bytes: 200, PartBytes: 10}
	for parts, want := range map[int]int{0: 0, 1: 0, 2: 0, 3: 1, 10: 8, 19: 17, 20: 19, 21: 19} {
		if got := reach(p, layout, parts); got != want {
			t.Errorf("%d parts are enough for %d chunks, want %d", parts, got, want)
		}
	}
	one := plan(1)
	if got := reach(one, layout, 20); got != 0 {
		t.Errorf("the last chunk waits for the whole file, and %d were promised", got)
	}
}
