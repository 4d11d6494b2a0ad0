package videostore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
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

func TestPromiseSurvivesBrokenQueue(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	v := awaiting()
	if _, err := s.Create(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	out.broken = errors.New("queue is away")
	if _, err := s.Uploaded(t.Context(), v.ID, epoch, "etag"); !errors.Is(err, out.broken) {
		t.Fatalf("Uploaded = %v, want the sender's error", err)
	}
	view, err := s.View(t.Context(), v.ID)
	if err != nil {
		t.Fatal(err)
	}
	if view.Subject.State != engine.Uploaded || !view.Promised {
		t.Fatalf("state %s, promised %t: state and promise must be written together", view.Subject.State, view.Promised)
	}
	out.broken = nil
	for range 2 { // the second finds nothing left
		if err := s.Flush(t.Context(), v.ID); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"probe: probe", "index: index"}, out.take()); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

func TestClaimIsAFence(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	id := uploaded(t, s)
	probed(t, s, id, plan(2, false))
	k := key(id, workflow.StepEncode, 0)

	stale, err := s.Claim(t.Context(), k, "message-7", "worker-1", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context(), k, "message-8", "worker-2", time.Time{}); !errors.Is(err, engine.ErrDuplicate) {
		t.Errorf("another message claims a running step: %v, want ErrDuplicate", err)
	}
	fresh, err := s.Claim(t.Context(), k, "message-7", "worker-2", time.Time{})
	if err != nil {
		t.Fatalf("the same message, delivered again, must take over: %v", err)
	}
	if err := stale.Commit(t.Context(), videostore.Commit{Output: video.ChunkOutput{Frames: 1}}); !errors.Is(err, engine.ErrSuperseded) {
		t.Errorf("stale commit: %v, want ErrSuperseded", err)
	}
	if err := fresh.Commit(t.Context(), videostore.Commit{Output: video.ChunkOutput{Frames: 120}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context(), k, "message-7", "worker-1", time.Time{}); !errors.Is(err, engine.ErrDone) {
		t.Errorf("claim of a done step: %v, want ErrDone", err)
	}
	view, err := s.View(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	p, err := videostore.Presentation(view, 1)
	if err != nil || p.Chunks[0] == nil || p.Chunks[0].Frames != 120 || p.Chunks[1] != nil {
		t.Errorf("presentation %+v (%v): want only the fresh attempt's chunk 0", p.Chunks, err)
	}
}

// Another worker takes the step over while the commit is on its way. A look before the write
// comes too early, so storage must compare.
func TestCommitIsRefusedOnItsWay(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Tables: videostore.Tables}); err != nil {
		t.Fatal(err)
	}
	var meanwhile func()
	faults := &inject.Transport{Choose: func(r *http.Request) inject.Fault {
		if do := meanwhile; do != nil && strings.HasSuffix(r.URL.Path, "$batch") {
			meanwhile = nil
			do()
		}
		return inject.None
	}}
	sleepy := videostore.New(azuritetest.AccountWith(t, func(c *azstore.Config) { c.Prefix, c.Transport = a.Prefix(), faults }), &outgoing{})
	s := videostore.New(a, &outgoing{})
	id := uploaded(t, s)
	probed(t, s, id, plan(2, false))
	k := key(id, workflow.StepEncode, 0)
	stale := claimOf(t, sleepy, k)
	meanwhile = func() {
		if err := claimOf(t, s, k).Commit(t.Context(), videostore.Commit{Output: video.ChunkOutput{Frames: 120}}); err != nil {
			t.Errorf("the second worker's commit: %v", err)
		}
	}
	if err := stale.Commit(t.Context(), videostore.Commit{Output: video.ChunkOutput{Frames: 1}}); !errors.Is(err, engine.ErrSuperseded) {
		t.Errorf("stale commit: %v, want ErrSuperseded", err)
	}
	view, err := s.View(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := videostore.Presentation(view, 1); err != nil || p.Chunks[0] == nil || p.Chunks[0].Frames != 120 {
		t.Errorf("chunks %+v (%v): want the second worker's first", p.Chunks, err)
	}
}

func TestCommitSurvivesAnEditOfTheVideo(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	id := uploaded(t, s)
	c, err := s.Claim(t.Context(), key(id, workflow.StepProbe, 0), "m", "w", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Change(t.Context(), id, "", func(v *video.Video) ([]engine.OutboxMessage, error) { v.Title = "Edited"; return nil, nil }); err != nil {
		t.Fatal(err)
	}
	p := plan(1, false)
	if err := c.Commit(t.Context(), videostore.Commit{Plan: &p, Edit: func(v *video.Video) { v.State = engine.Processing }}); err != nil {
		t.Fatal(err)
	}
	rec, err := s.Get(t.Context(), id)
	if err != nil || rec.Subject.Title != "Edited" || rec.Subject.State != engine.Processing {
		t.Errorf("%+v (%v): want both changes", rec.Subject, err)
	}
}

func TestDeletedVideoCannotComeBack(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	id := uploaded(t, s)
	probed(t, s, id, plan(2, false))
	c, err := s.Claim(t.Context(), key(id, workflow.StepEncode, 0), "m", "w", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Active(t.Context()); !errors.Is(err, engine.ErrGone) {
		t.Errorf("Active under a tombstone: %v, want ErrGone", err)
	}
	claimed, err := s.Erase(t.Context(), id, false)
	if err != nil || !claimed {
		t.Fatalf("Erase = %t, %v; a step was claimed", claimed, err)
	}
	if _, err := s.Erase(t.Context(), id, true); err != nil {
		t.Fatal(err)
	}
	if err := c.Commit(t.Context(), videostore.Commit{Output: 1, Edit: func(*video.Video) {}}); !errors.Is(err, engine.ErrGone) {
		t.Errorf("late commit: %v, want ErrGone", err)
	}
	if _, err := s.Claim(t.Context(), key(id, workflow.StepEncode, 1), "m2", "w", time.Time{}); !errors.Is(err, engine.ErrGone) {
		t.Errorf("late claim: %v, want ErrGone", err)
	}
	if _, err := s.View(t.Context(), id); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("View: %v, want ErrNotFound", err)
	}
	marks, err := inflight(t, s)
	if err != nil || len(marks) != 1 || !marks[0].Erased {
		t.Errorf("in flight: %v, %v; want the mark of the purge, for what comes late", marks, err)
	}
}

// A video whose META cannot be read can be deleted, and what can be read of it is enough
// for its owner to have room again.
func TestDeletingWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Tables: append([]string{tablestore.UnreadableTable}, videostore.Tables...)}); err != nil {
		t.Fatal(err)
	}
	out := &outgoing{}
	s, rows := videostore.New(a, out), tablestore.New(a, workflow.VideosTable)
	for doc, left := range map[string]int{
		`{"id":"%s","owner":"studio %[1]s","state":"ready","title":5}`: 0, // a member of another type
		`{"id":"another","owner":"studio %s","state":"ready"}`:         0,
		`{not json%.0s`: 1, // whose it was is unknown: the line in the quota stays
	} {
		id := engine.NewID()
		owner := "studio " + string(id)
		if _, err := s.Create(t.Context(), video.Video{Meta: engine.Meta{
			ID: id, Owner: owner, State: engine.AwaitingUpload,
		}}); err != nil {
			t.Fatal(err)
		}
		row := tablestore.Entity{PartitionKey: string(id), RowKey: "META", Props: map[string]any{"Doc": fmt.Sprintf(doc, id)}}
		if _, err := rows.Upsert(t.Context(), row); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), id); !errors.Is(err, tablestore.ErrUnreadable) {
			t.Fatalf("%s is read: %v", doc, err)
		}
		for range 2 { // repeating does no harm
			if rec, err := s.Delete(t.Context(), id, "a version"); err != nil && !errors.Is(err, engine.ErrChanged) || err == nil && rec.Subject.State != engine.Deleting {
				t.Fatalf("%s: %+v, %v", doc, rec, err)
			}
		}
		if sent := out.take(); len(sent) != 1 || sent[0] != "purge: purge" {
			t.Errorf("sent %q", sent)
		}
		if _, err := s.Erase(t.Context(), id, true); err != nil {
			t.Fatal(err)
		}
		ids, _, err := s.Owned(t.Context(), owner, 10, "")
		if err != nil || len(ids) != left {
			t.Errorf("%s: its owner has %v, %v", doc, ids, err)
		}
	}
}

// fanIn is FanIn with a view of now.
func fanIn(t *testing.T, s *videostore.Store, id engine.ID) (bool, error) {
	t.Helper()
	view, err := s.View(t.Context(), id)
	if err != nil {
		return false, err
	}
	return s.FanIn(t.Context(), view)
}

func TestFanInHasOneWinner(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	const races, chunks = 10, 4
	for range races {
		id := uploaded(t, s)
		p := plan(chunks, false)
		probed(t, s, id, p)
		out.take()
		var wg sync.WaitGroup
		var mu sync.Mutex
		wins := 0
		for i := range chunks {
			wg.Go(func() {
				c, err := s.Claim(t.Context(), key(id, workflow.StepEncode, i), fmt.Sprint(i), "w", time.Time{})
				if err == nil {
					err = c.Commit(t.Context(), videostore.Commit{Output: video.ChunkOutput{Frames: 120}})
				}
				if err != nil {
					t.Error(err)
					return
				}
				won, err := fanIn(t, s, id)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if won {
					wins++
				}
			})
		}
		wg.Wait()
		if diff := cmp.Diff([]string{"finish: finish"}, out.take()); wins != 1 || diff != "" {
			t.Fatalf("%d winners, sent (-want +got):\n%s", wins, diff)
		}
	}
}

// Q5: a film has only so many chunks in the queues. Each commit promises the next,
// or two when the queues run empty, and together they promise every chunk once,
// no matter which commits come at the same time.
func TestCommitsPromiseTheNextChunks(t *testing.T) {
	t.Parallel()
	for _, hungry := range []bool{false, true} {
		t.Run(fmt.Sprintf("hungry %t", hungry), func(t *testing.T) {
			t.Parallel()
			s, out := setup(t)
			out.hungry.Store(hungry)
			id := uploaded(t, s)
			const chunks = 30
			p := plan(chunks, false)
			out.take()
			probed(t, s, id, p)
			open := len(out.take()) - 1 // the step on change
			if open >= chunks || open < 4 {
				t.Fatalf("%d of %d chunks are in the queues after the fan-out", open, chunks)
			}
			var mu sync.Mutex
			claimed := 0
			var wg sync.WaitGroup
			for range 4 { // workers
				wg.Go(func() {
					for {
						mu.Lock()
						i := claimed
						claimed++
						mu.Unlock()
						if i >= chunks {
							return
						}
						c, err := s.Claim(t.Context(), key(id, workflow.StepEncode, i), fmt.Sprint(i), "w", time.Time{})
						if err == nil {
							err = c.Commit(t.Context(), videostore.Commit{Output: video.ChunkOutput{Frames: 120}})
						}
						if err == nil {
							err = c.SendOutbox(t.Context())
						}
						if err == nil {
							_, err = fanIn(t, s, id)
						}
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			sent := out.take()
			encodes := slices.DeleteFunc(slices.Clone(sent), func(m string) bool { return strings.HasPrefix(m, "finish") })
			if len(encodes) != chunks-open || len(sent) != len(encodes)+1 {
				t.Errorf("%d chunks and %d others were promised after the first %d of %d: %v", len(encodes), len(sent)-len(encodes), open, chunks, sent)
			}
			view, err := s.View(t.Context(), id)
			if err != nil || view.Promised || len(view.Missing()) != 1 {
				t.Errorf("at the end the outbox is full: %t, missing are %v, want the last step; %v", view.Promised, view.Missing(), err)
			}
		})
	}
}

// A commit was about to promise the last chunks when other workers promised them, made them
// and looked: then it is the last one, and its look counts.
func TestCommitThatWasOvertakenStillLooks(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id := uploaded(t, s)
	const chunks = 10
	probed(t, s, id, plan(chunks, false))
	if _, err := s.Change(t.Context(), id, "", func(v *video.Video) ([]engine.OutboxMessage, error) { v.Playable = true; return nil, nil }); err != nil {
		t.Fatal(err)
	}
	encode := func(i int) {
		c, err := s.Claim(t.Context(), key(id, workflow.StepEncode, i), fmt.Sprint(i), "w", time.Time{})
		if err == nil {
			err = c.Commit(t.Context(), videostore.Commit{Output: video.ChunkOutput{Frames: 120}})
		}
		if err == nil {
			err = c.SendOutbox(t.Context())
		}
		if err == nil {
			err = c.Follow(t.Context())
		}
		if err != nil {
			t.Errorf("chunk %d: %v", i, err)
		}
	}
	out.meanwhile = func() {
		for i := range chunks - 1 {
			encode(i + 1)
		}
		out.take()
	}
	encode(0)
	if diff := cmp.Diff([]string{"finish: finish"}, out.take()); diff != "" {
		t.Errorf("after the last chunk these are sent (-want +got):\n%s", diff)
	}
}

// The reconciler and a retry send again what was promised, not the whole film.
func TestMissingIsWhatWasPromised(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id := uploaded(t, s)
	out.take()
	probed(t, s, id, plan(30, false))
	open := len(out.take()) - 1 // the step on change
	view, err := s.View(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if missing := view.Missing(); len(missing) != open {
		t.Errorf("%d messages are missing, %d were promised", len(missing), open)
	}
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

func TestSettleKeepsARenewedMark(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	id := uploaded(t, s)
	marks, err := inflight(t, s)
	if err != nil || len(marks) != 1 {
		t.Fatalf("Inflight = %v, %v; want one mark", marks, err)
	}
	if _, err := s.Cancel(t.Context(), id); err != nil { // new work, new mark
		t.Fatal(err)
	}
	if err := s.ClearInflight(t.Context(), marks[0]); err != nil {
		t.Fatal(err)
	}
	again, err := inflight(t, s)
	if err != nil || len(again) != 1 {
		t.Fatalf("Inflight = %v, %v; a stale Settle removed the mark", again, err)
	}
	if err := s.ClearInflight(t.Context(), again[0]); err != nil {
		t.Fatal(err)
	}
	if left, err := inflight(t, s); err != nil || len(left) != 0 {
		t.Errorf("Inflight = %v, %v; want nothing", left, err)
	}
}

func TestRetryKeepsFinishedChunks(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id := uploaded(t, s)
	probed(t, s, id, plan(3, true))
	c, err := s.Claim(t.Context(), key(id, workflow.StepEncode, 1), "m", "w", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Commit(t.Context(), videostore.Commit{Output: video.ChunkOutput{}}); err != nil {
		t.Fatal(err)
	}
	bad, err := s.Claim(t.Context(), key(id, workflow.StepEncode, 2), "m2", "w", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	failure := &engine.Failure{Code: video.CorruptMedia, Detail: "no"}
	if err := bad.Fail(t.Context(), failure); err != nil {
		t.Fatal(err)
	}
	rec, err := s.Get(t.Context(), id)
	if err != nil || rec.Subject.State != engine.Failed || rec.Subject.Error.Code != video.CorruptMedia {
		t.Fatalf("%+v, %v; want the failure", rec.Subject, err)
	}
	if err := s.Flush(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	out.take()
	if _, err := s.Retry(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	want := []string{"encode-first: encode", "audio-first: audio", "encode-high: encode", "index: index"}
	if diff := cmp.Diff(want, out.take()); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	if _, err := s.Retry(t.Context(), id); !errors.Is(err, engine.ErrState) {
		t.Errorf("retry of a video that is processing: %v, want ErrState", err)
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
