package videostore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

const partsOfUpload = 20

// beingSent makes a video whose upload comes in parts.
func beingSent(t *testing.T, s *videostore.Store) video.ID {
	t.Helper()
	v := video.Video{ID: video.NewID(), Title: "A title", Owner: video.LocalOwner, State: video.AwaitingUpload, Priority: video.Normal,
		Upload: &video.Upload{Bytes: 10 * partsOfUpload, PartBytes: 10, Epoch: epoch}}
	if _, err := s.Create(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	return v.ID
}

// arrived says that the first parts are held, and the last.
func arrived(t *testing.T, s *videostore.Store, id video.ID, head int, more ...int) video.Video {
	t.Helper()
	var held []sourceparts.Part
	for n := range partsOfUpload {
		if n < head || n == partsOfUpload-1 || slices.Contains(more, n) {
			held = append(held, sourceparts.Part{Number: n})
		}
	}
	rec, err := s.Arrived(t.Context(), id, held)
	if err != nil {
		t.Fatal(err)
	}
	return rec.Video
}

func complete(t *testing.T, s *videostore.Store, id video.ID) video.Video {
	t.Helper()
	rec, err := s.Uploaded(t.Context(), id, epoch, "etag")
	if err != nil {
		t.Fatal(err)
	}
	return rec.Video
}

// earlyPlan has a chunk and a portion of sound for each part, which needs it; the last of
// both need all of the file.
func earlyPlan(chunks int) video.Plan {
	p := plan(chunks, true)
	p.Needs = &video.Needs{}
	for i := range chunks {
		p.Needs.Chunks = append(p.Needs.Chunks, i+1)
	}
	p.Needs.Chunks[chunks-1] = partsOfUpload + 1
	p.Sound = []video.SoundPortion{{First: 0, End: 1}, {First: 1, End: 2}}
	p.Needs.Sound = []int{1, partsOfUpload + 1}
	p.Promises = workflow.PromisesFor(p)
	return p
}

// probedEarly commits a plan that was made when so many parts were there.
func probedEarly(t *testing.T, c *videostore.Claim, p video.Plan, head int) {
	t.Helper()
	commit := videostore.Commit{Plan: &p, Head: head, Video: func(v *video.Video) {
		if v.State == video.Uploaded {
			v.State = video.Processing
		}
	}}
	if err := errors.Join(c.Commit(t.Context(), commit), c.SendOutbox(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func claimOf(t *testing.T, s *videostore.Store, k workflow.Key) *videostore.Claim {
	t.Helper()
	c, err := s.Claim(t.Context(), k, "message "+k.ItemID(), "worker", time.Time{})
	if err != nil {
		t.Fatalf("%s: %v", k, err)
	}
	return c
}

// ends commits a part.
func ends(t *testing.T, s *videostore.Store, k workflow.Key) {
	t.Helper()
	c := claimOf(t, s, k)
	commit := videostore.Commit{Output: video.ChunkOutput{Frames: 120}}
	if err := errors.Join(c.Commit(t.Context(), commit), c.SendOutbox(t.Context()), c.Follow(t.Context())); err != nil {
		t.Fatalf("%s: %v", k, err)
	}
}

// promised are the messages of parts, without those of the index.
func promisedOf(out *outgoing) (names []string) {
	for _, item := range out.takeItems() {
		if item.Step != workflow.StepIndex {
			_, rest, _ := strings.Cut(item.ID, ".")
			names = append(names, rest)
		}
	}
	return names
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: promised %v, want %v", what, got, want)
	}
}

// What has arrived is promised and nothing else, never more than a window at once; what
// needs the whole file comes with its completion, and so does the end.
func TestPartsArePromisedAsTheyArrive(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id := beingSent(t, s)
	encode := func(i int) workflow.Key { return key(id, workflow.StepEncode, i) }
	if v := arrived(t, s, id, 0); v.ProcessedEarly() {
		t.Error("work begins without the first part")
	}
	arrived(t, s, id, 1)
	v := arrived(t, s, id, 2) // again
	same(t, "first and last part", promisedOf(out), "1.probe.0")
	if !v.ProcessedEarly() || !v.Working() || v.State != video.AwaitingUpload {
		t.Errorf("state %s, upload %+v", v.State, v.Upload)
	}
	const chunks = 16
	p := earlyPlan(chunks)
	probedEarly(t, claimOf(t, s, key(id, workflow.StepProbe, 0)), p, 2)
	same(t, "two parts", promisedOf(out), "1.encode.0", "1.encode.1", "1.audio.0")
	ends(t, s, encode(0))
	ends(t, s, encode(1))
	same(t, "two chunks ended, nothing arrived", promisedOf(out))
	arrived(t, s, id, 4)
	arrived(t, s, id, 4)
	same(t, "two more parts", promisedOf(out), "1.encode.2", "1.encode.3")
	arrived(t, s, id, 18)
	all := promisedOf(out)
	if len(all) != 6 { // a window of eight, of which two are open
		t.Errorf("with all but one part: %v", all)
	}
	ends(t, s, encode(2))
	same(t, "a chunk ended", promisedOf(out), "1.encode.10")
	view, err := s.View(t.Context(), id)
	if err != nil || len(view.Missing()) != 9 || view.Video.State != video.AwaitingUpload { // chunks 3 to 10, sound
		t.Errorf("missing %d, state %s, %v", len(view.Missing()), view.Video.State, err)
	}
	if ok, err := s.FanIn(t.Context(), id, p); ok || err != nil {
		t.Errorf("the end before the last byte: %t, %v", ok, err)
	}

	if v := complete(t, s, id); v.State != video.Processing || v.SourceETag != "etag" {
		t.Errorf("complete: %s, %q", v.State, v.SourceETag)
	}
	rest := promisedOf(out)
	for _, want := range []string{"1.audio.0", "1.audio.1", "1.checked.0", "1.encode.3", "1.encode.10"} {
		if !slices.Contains(rest, want) {
			t.Errorf("complete: promised %v, not %s", rest, want)
		}
	}
	for i := 3; i < chunks; i++ {
		ends(t, s, encode(i))
	}
	ends(t, s, key(id, workflow.StepAudio, 0))
	ends(t, s, key(id, workflow.StepAudio, 1))
	ends(t, s, key(id, stepChecked, 0))
	after := append(rest, promisedOf(out)...)
	for _, want := range []string{fmt.Sprintf("1.encode.%d", chunks-1), "1.finish.0"} {
		if !slices.Contains(after, want) {
			t.Errorf("%s was not promised: %v", want, after)
		}
	}
}

// The queues of early work: the beginning goes first, the rest gets in nobody's way until
// the upload is complete.
func TestEarlyWorkGetsInNobodysWay(t *testing.T) {
	t.Parallel()
	v := video.Video{State: video.AwaitingUpload, Priority: video.Normal, Upload: &video.Upload{Started: true}}
	step, _ := workflow.Find(workflow.StepEncode)
	for i, want := range []string{workflow.EncodeFirst, workflow.EncodeHigh, workflow.EncodeHigh, workflow.EncodeLow} {
		if got := step.Queue(v, plan(9, false), i); !strings.HasPrefix(got, want) {
			t.Errorf("chunk %d travels on %s, want %s", i, got, want)
		}
	}
	v.State = video.Processing
	if got := step.Queue(v, plan(9, false), 3); !strings.HasPrefix(got, workflow.EncodeNormal) {
		t.Errorf("chunk 3 of a complete upload travels on %s", got)
	}
}

// The first step asks for what it misses and is promised again when that has come; after
// a few times, or when it fails, work waits for the whole file, and nothing is final.
func TestEarlyWorkWaits(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	begun := time.Now()
	id := beingSent(t, s)
	arrived(t, s, id, 1)
	promisedOf(out)
	for look := 1; ; look++ {
		waits, err := s.RequestParts(t.Context(), id, 1, []int{15, 16})
		if err != nil || !waits {
			t.Fatalf("want: %t, %v", waits, err)
		}
		arrived(t, s, id, 5, 15)
		same(t, "one of two wanted parts", promisedOf(out))
		if v := arrived(t, s, id, 5, 15, 16); v.Upload.DeferToComplete {
			same(t, "too many looks", promisedOf(out))
			break
		}
		same(t, "both", promisedOf(out), "1.probe.0")
		if look > 20 {
			t.Fatal("it looks for ever")
		}
	}
	view, err := s.View(t.Context(), id)
	if err != nil || len(view.Missing()) != 0 {
		t.Errorf("missing while it waits: %v, %v", view.Missing(), err)
	}
	if err := s.FailStep(t.Context(), key(id, workflow.StepProbe, 0), time.Now(), &video.Failure{Code: video.ProcessingFailed}); !errors.Is(err, videostore.ErrPostponed) {
		t.Errorf("attempts are used up before the last byte: %v", err)
	}
	if rec, err := s.Get(t.Context(), id); err != nil || rec.Video.State != video.AwaitingUpload {
		t.Errorf("a failure before the last byte: %s, %v", rec.Video.State, err)
	}
	if v := complete(t, s, id); v.State != video.Uploaded {
		t.Errorf("complete: %s", v.State)
	}
	same(t, "complete", promisedOf(out), "1.probe.0")
	if waits, err := s.RequestParts(t.Context(), id, 1, []int{3}); waits || err != nil {
		t.Errorf("a look that ends after the last byte waits: %t, %v", waits, err)
	}

	// Attempts on half a file say nothing about the whole one, also when the last of them
	// fails after its last byte, in a worker that could not write how it ended.
	probe := key(id, workflow.StepProbe, 0)
	claimOf(t, s, probe)
	if err := s.FailStep(t.Context(), probe, begun, &video.Failure{Code: video.ProcessingFailed}); !errors.Is(err, videostore.ErrPostponed) {
		t.Errorf("attempts that began before the last byte are used up after it: %v", err)
	}
	same(t, "used up after the last byte", promisedOf(out), "1.probe.0")
	if _, err := s.Claim(t.Context(), probe, "a new message", "w", time.Time{}); err != nil {
		t.Errorf("claim for the new message: %v", err)
	}
	if err := s.FailStep(t.Context(), probe, time.Now(), &video.Failure{Code: video.ProcessingFailed}); err != nil {
		t.Error(err)
	}
	if rec, err := s.Get(t.Context(), id); err != nil || rec.Video.State != video.Failed {
		t.Errorf("attempts on the whole file are used up: %s, %v", rec.Video.State, err)
	}
}

// The upload becomes complete while its plan is made: the plan is as any other.
func TestPlanOfAnUploadThatEndsMeanwhile(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id := beingSent(t, s)
	arrived(t, s, id, 1)
	c := claimOf(t, s, key(id, workflow.StepProbe, 0))
	promisedOf(out)
	complete(t, s, id)
	same(t, "complete while the first step is on its way", promisedOf(out))
	probedEarly(t, c, earlyPlan(3), 1)
	same(t, "the plan", promisedOf(out), "1.encode.0", "1.encode.1", "1.encode.2", "1.audio.0", "1.audio.1", "1.checked.0")
	if rec, err := s.Get(t.Context(), id); err != nil || rec.Video.State != video.Processing {
		t.Errorf("state %s, %v", rec.Video.State, err)
	}
}

// What is cancelled while it uploads is not worked on; when it is taken up again, what
// was promised is promised again.
func TestEarlyWorkIsCancelled(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id := beingSent(t, s)
	arrived(t, s, id, 1)
	probedEarly(t, claimOf(t, s, key(id, workflow.StepProbe, 0)), earlyPlan(5), 2)
	promisedOf(out)
	if _, err := s.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context(), key(id, workflow.StepEncode, 0), "m", "w", time.Time{}); !errors.Is(err, videostore.ErrGone) {
		t.Errorf("a chunk of a cancelled upload: %v", err)
	}
	arrived(t, s, id, 5)
	same(t, "cancelled", promisedOf(out))
	if _, err := s.Retry(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	same(t, "retried", promisedOf(out), "1.encode.0", "1.encode.1", "1.audio.0")
}
