package videostore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// Steps of these tests: no step of ours is a part that fails alone, or runs for each chunk when the
// video is ready, but a fork's may be; and a fork may have none that runs once after ready.
const (
	stepChecked = "checked"
	stepSpotted = "spotted"
	stepMoved   = "moved" // an older release declared it as a part
)

func TestMain(m *testing.M) {
	workflow.Declaration.Steps = append(workflow.Declaration.Steps,
		engine.Step{Name: stepChecked, Stage: engine.Part, Optional: true, Queues: []string{workflow.Audio}},
		engine.Step{Name: stepSpotted, Stage: engine.AfterReady, Count: workflow.PerChunk, Queues: []string{workflow.EncodeLow}},
		engine.Step{Name: stepMoved, Stage: engine.AfterReady, Queues: []string{workflow.Audio}},
	)
	workflow.Declaration.Steps = append(workflow.Declaration.Steps, gates...)
	azuritetest.Main(m)
}

// outgoing records what is sent, and fails while broken is set.
type outgoing struct {
	mu     sync.Mutex
	sent   []string // "queue: step"
	items  []azq.Item
	broken error
	hungry atomic.Bool // the queues have run empty

	meanwhile func() // is called once, while a commit asks whether something waits
}

func (o *outgoing) SendItem(_ context.Context, queue string, item azq.Item, _ time.Duration) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.broken != nil {
		return o.broken
	}
	o.sent = append(o.sent, queue+": "+item.Kind)
	o.items = append(o.items, item)
	return nil
}

// Lane implements engine.Sender.
func (*outgoing) Lane(context.Context, string, bool) (int, bool) { return 0, false }

// Waiting implements engine.Sender.
func (o *outgoing) Waiting(context.Context, string) (bool, error) {
	if do := o.meanwhile; do != nil {
		o.meanwhile = nil
		do()
	}
	return !o.hungry.Load(), nil
}

func (o *outgoing) take() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	sent := o.sent
	o.sent, o.items = nil, nil
	return sent
}

func (o *outgoing) takeItems() []azq.Item {
	o.mu.Lock()
	defer o.mu.Unlock()
	items := o.items
	o.sent, o.items = nil, nil
	return items
}

func setup(t *testing.T) (*videostore.Store, *outgoing) {
	t.Helper()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Tables: videostore.Tables}); err != nil {
		t.Fatal(err)
	}
	out := &outgoing{}
	return videostore.New(a, out), out
}

func inflight(t *testing.T, s *videostore.Store) (marks []engine.Inflight, _ error) {
	t.Helper()
	for mark, err := range s.Inflight(t.Context()) {
		if err != nil {
			return nil, err
		}
		marks = append(marks, mark)
	}
	return marks, nil
}

// epoch is that of the upload of every video of awaiting.
const epoch = "e"

// awaiting is a video of which some parts may be there.
func awaiting() video.Video {
	return video.Video{
		Meta: engine.Meta{
			ID: engine.NewID(), Owner: video.LocalOwner, State: engine.AwaitingUpload, Priority: engine.Normal,
			Upload: &engine.Upload{Bytes: 900, PartBytes: 1000, Epoch: epoch},
		},
		Title: "A title",
	}
}

// uploaded makes a video whose probe is promised.
func uploaded(t *testing.T, s *videostore.Store) engine.ID {
	t.Helper()
	v := awaiting()
	if _, err := s.Create(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Uploaded(t.Context(), v.ID, epoch, "etag"); err != nil {
		t.Fatal(err)
	}
	return v.ID
}

// plan promises the pictures and the sound.
func plan(chunks int, audio bool) video.Plan {
	p := video.Plan{
		Plan: engine.Plan{Generation: 1}, FPS: video.Rational{Num: 30, Den: 1}, SegmentFrames: 120,
		HasAudio: audio, Renditions: []video.Rendition{{Name: "240p", Width: 426, Height: 240, MaxRate: 450_000}},
	}
	for i := range chunks {
		p.Chunks = append(p.Chunks, video.Chunk{From: int64(i) * 120, To: int64(i+1) * 120})
	}
	if audio {
		p.Sound = []video.SoundPortion{{End: chunks}}
	}
	p.Frames = int64(chunks) * 120
	p.Promises = picturesAndSound(p)
	return p
}

func picturesAndSound(p video.Plan) []engine.Promise {
	return slices.DeleteFunc(workflow.PromisesFor(p), func(p engine.Promise) bool { return p.Step == stepChecked || p.After || p.Gate })
}

func key(id engine.ID, step string, index int) engine.Key {
	return engine.Key{ID: id, Generation: 1, Step: step, Index: index}
}

// probed commits a plan, as the probe step does.
func probed(t *testing.T, s *videostore.Store, id engine.ID, p video.Plan) {
	t.Helper()
	c, err := s.Claim(t.Context(), key(id, workflow.StepProbe, 0), "message-1", "worker-1", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Commit(t.Context(), videostore.Commit{Plan: &p, Edit: func(v *video.Video) { v.State = engine.Processing }})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

// finished makes a video of 8 s at 30 frames per second that is ready and
// settled, and throws away what was sent for it.
func finished(t *testing.T, s *videostore.Store, out *outgoing) engine.ID {
	t.Helper()
	id := uploaded(t, s)
	probed(t, s, id, plan(2, false))
	finish(t, s, id, 1)
	marks, err := inflight(t, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range marks {
		if m.ID == id {
			if err := s.ClearInflight(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
	}
	out.take()
	return id
}

func finish(t *testing.T, s *videostore.Store, id engine.ID, generation int) {
	t.Helper()
	c, err := s.Claim(t.Context(), engine.Key{ID: id, Generation: generation, Step: workflow.StepFinish}, "m", "w", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Commit(t.Context(), videostore.Commit{Output: video.FinishOutput{Frames: 240}, Edit: func(v *video.Video) {
		v.State, v.Playable, v.Serving = engine.Ready, true, generation
	}})
	if err := errors.Join(err, c.SendOutbox(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// fanIn is FanIn, and reports whether the last step is promised then.
func fanIn(t *testing.T, s *videostore.Store, id engine.ID) (bool, error) {
	t.Helper()
	if err := s.FanIn(t.Context(), id); err != nil {
		return false, err
	}
	rec, err := s.Get(t.Context(), id)
	if err == nil {
		_, err = s.ReadRun(t.Context(), engine.Key{ID: id, Generation: rec.Subject.Generation, Step: workflow.Declaration.Only(engine.Last).Name})
	}
	if errors.Is(err, engine.ErrNotFound) || errors.Is(err, engine.ErrNoRun) {
		return false, nil
	}
	return err == nil, err
}

// Portions of sound are committed in any order. Playlists list what has no gap
// before it, and the finish step waits for all of them.
func TestSoundInPortions(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id := uploaded(t, s)
	p := plan(2, true)
	p.Sound = []video.SoundPortion{{First: 0, End: 1}, {First: 1, End: 2}, {First: 2, End: 4}}
	p.Promises = picturesAndSound(p)
	probed(t, s, id, p)
	part := func(i int) *video.AudioPart {
		made := &video.AudioPart{First: p.Sound[i].First, Blob: fmt.Sprint("blob-", i)}
		for range p.Sound[i].End - p.Sound[i].First {
			made.Segments = append(made.Segments, video.AudioSegment{Samples: 96000})
		}
		return made
	}
	commit := func(step string, index int, c videostore.Commit) {
		t.Helper()
		claim, err := s.Claim(t.Context(), key(id, step, index), fmt.Sprint(step, index), "w", time.Time{})
		if err == nil {
			err = claim.Commit(t.Context(), c)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	check := func(ready, done bool, listed int, finish bool) {
		t.Helper()
		view, err := s.View(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := videostore.Presentation(view, 1)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := playlist.Media(whole, playlist.AudioName)
		if n := strings.Count(text, "#EXTINF"); whole.Ready() != ready || whole.AudioDone != done || n != listed {
			t.Errorf("ready %t, done %t, %d segments listed; want %t, %t, %d", whole.Ready(), whole.AudioDone, n, ready, done, listed)
		}
		if won, err := fanIn(t, s, id); err != nil || won != finish {
			t.Errorf("FanIn = %t, %v", won, err)
		}
	}
	commit(workflow.StepEncode, 0, videostore.Commit{Output: video.ChunkOutput{Frames: 120}})
	commit(workflow.StepEncode, 1, videostore.Commit{Output: video.ChunkOutput{Frames: 120}})
	check(false, false, 0, false)
	commit(workflow.StepAudio, 2, videostore.Commit{Output: part(2)})
	check(false, false, 0, false)
	commit(workflow.StepAudio, 0, videostore.Commit{Output: part(0)})
	check(true, false, 1, false)
	view, err := s.View(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	missing := view.Missing()
	if len(missing) != 1 || missing[0].Step != workflow.StepAudio || missing[0].Index != 1 {
		t.Errorf("missing: %+v; want the portion in the middle", missing)
	}
	out.take()
	commit(workflow.StepAudio, 1, videostore.Commit{Output: part(1)})
	check(true, true, 4, true)
	items := out.takeItems()
	if len(items) != 1 || items[0].Kind != workflow.StepFinish {
		t.Errorf("sent %+v, want finish", items)
	}
}

func claimOf(t *testing.T, s *videostore.Store, k engine.Key) *videostore.Claim {
	t.Helper()
	c, err := s.Claim(t.Context(), k, "message "+k.ItemID(), "worker", time.Time{})
	if err != nil {
		t.Fatalf("%s: %v", k, err)
	}
	return c
}

// An index step that read a mark before it was renewed does not say that the newer work is
// followed: what was reserved for that would stay counted.
func TestARenewedMarkIsNotIndexed(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	rec, err := s.Create(t.Context(), awaiting())
	if err != nil {
		t.Fatal(err)
	}
	read := func() engine.Inflight {
		mark, err := s.InflightMark(t.Context(), rec.Subject.ID)
		if err != nil {
			t.Fatal(err)
		}
		return mark
	}
	before, at := read(), time.Now().UTC().Truncate(time.Second)
	if err := s.MarkInflight(t.Context(), rec.Subject.Meta); err != nil {
		t.Fatal(err)
	}
	for _, mark := range []engine.Inflight{before, read()} {
		if err := s.MarkIndexed(t.Context(), mark, at); err != nil {
			t.Fatal(err)
		}
		if done := read().Indexed.Equal(at); done == (mark.ETag == before.ETag) {
			t.Errorf("indexed: %v, by the mark that was renewed: %v", done, mark.ETag == before.ETag)
		}
	}
}
