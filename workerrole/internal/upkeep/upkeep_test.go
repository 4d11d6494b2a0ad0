package upkeep_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
	"github.com/cutroom/cutroom/shared/engine/upkeep"
	"github.com/cutroom/cutroom/shared/engine/workers"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

// gate is a sender that can be shut.
type gate struct {
	*azq.Client
	shut atomic.Bool
}

var errShut = errors.New("queue is away")

func (g *gate) SendItem(ctx context.Context, queue string, item azq.Item, delay time.Duration) error {
	if g.shut.Load() {
		return errShut
	}
	return g.Client.SendItem(ctx, queue, item, delay)
}

type bench struct {
	account *azstore.Account
	queues  *gate
	videos  *videostore.Store
	blobs   *blobstore.Store
	rec     upkeep.Reconciler[video.Video, video.Plan]
}

func setup(t *testing.T) *bench {
	t.Helper()
	a := azuritetest.Account(t)
	b := &bench{account: a, queues: &gate{Client: azq.Open(a, azq.Options{Queues: workflow.Specs})}, blobs: blobstore.New(a)}
	if err := b.queues.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Ensure(t.Context(), azstore.Names{Containers: []string{engine.MediaContainer, engine.SourcesContainer}, Tables: videostore.Tables}); err != nil {
		t.Fatal(err)
	}
	b.videos = videostore.New(a, b.queues)
	b.rec = upkeep.Reconciler[video.Video, video.Plan]{
		Store: b.videos.Store, Blobs: b.blobs, CreateTimeout: time.Minute, AbandonAfter: time.Hour, OrphanAfter: time.Hour, Log: slog.New(slog.DiscardHandler),
		Queue: upkeep.StateIn(b.queues.Client),
	}
	return b
}

// epoch is that of the upload of every video of create.
const epoch = "e"

func (b *bench) create(t *testing.T) engine.ID {
	t.Helper()
	id := engine.NewID()
	v := video.Video{Meta: engine.Meta{
		ID: id, Owner: video.LocalOwner, Channel: string(id), State: engine.AwaitingUpload,
		Priority: engine.Normal, Upload: &engine.Upload{Bytes: 1, PartBytes: 1, Epoch: epoch},
	}}
	if _, err := b.videos.Create(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	return v.ID
}

// waiting lists the steps whose messages are visible in a queue.
func (b *bench) waiting(t *testing.T, queue string) []string {
	t.Helper()
	var steps []string
	for lane := range azq.DefaultLanes {
		q := b.queues.Queue(azq.LaneName(queue, lane))
		if q == nil {
			continue
		}
		seen, err := q.Peek(t.Context(), azq.MaxBatch)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range seen {
			steps = append(steps, p.Item.Kind)
		}
	}
	return steps
}

func (b *bench) marks(t *testing.T) (marks []engine.Inflight, _ error) {
	t.Helper()
	for mark, err := range b.videos.Inflight(t.Context()) {
		if err != nil {
			return nil, err
		}
		marks = append(marks, mark)
	}
	return marks, nil
}

// indexed notes that the index step has followed the META of a moment.
func (b *bench) indexed(t *testing.T, id engine.ID, updatedAt time.Time) {
	t.Helper()
	mark, err := b.videos.InflightMark(t.Context(), id)
	if err == nil {
		err = b.videos.MarkIndexed(t.Context(), mark, updatedAt)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (b *bench) pass(t *testing.T) {
	t.Helper()
	if _, err := b.rec.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestReconcilerSendsWhatWasForgotten(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.create(t)
	b.queues.shut.Store(true) // the web role dies between row and message
	if _, err := b.videos.Uploaded(t.Context(), id, epoch, "etag"); !errors.Is(err, errShut) {
		t.Fatal(err)
	}
	b.queues.shut.Store(false)
	b.pass(t)
	if diff := cmp.Diff([]string{"probe"}, b.waiting(t, workflow.Probe)); diff != "" {
		t.Errorf("probe queue (-want +got):\n%s", diff)
	}
	b.pass(t)
	if got := b.waiting(t, workflow.Probe); len(got) != 1 {
		t.Errorf("a second pass sent again although the message is there: %v", got)
	}
}

func TestReconcilerReplacesALostMessage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.create(t)
	if _, err := b.videos.Uploaded(t.Context(), id, epoch, "etag"); err != nil {
		t.Fatal(err)
	}
	key := engine.Key{ID: id, Generation: 1, Step: workflow.StepProbe}
	if _, err := b.videos.Claim(t.Context(), key, "lost message", "dead worker", time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := b.queues.Queue(workflow.Probe).Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.pass(t)
	if got := b.waiting(t, workflow.Probe); len(got) != 1 {
		t.Fatalf("probe queue: %v, want the message again", got)
	}
	if _, err := b.videos.Claim(t.Context(), key, "new message", "live worker", time.Time{}); err != nil {
		t.Errorf("the new message cannot take the step over: %v", err)
	}
}

func TestReconcilerRemovesAbandonedUploads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.create(t)
	b.pass(t)
	if rec, err := b.videos.Get(t.Context(), id); err != nil || rec.Subject.State != engine.AwaitingUpload {
		t.Fatalf("a fresh upload was touched: %s, %v", rec.Subject.State, err)
	}
	b.rec.AbandonAfter = 0
	b.pass(t)
	if rec, err := b.videos.Get(t.Context(), id); err != nil || rec.Subject.State != engine.Deleting {
		t.Errorf("state %s, %v; want deleting", rec.Subject.State, err)
	}
	if diff := cmp.Diff([]string{"purge"}, b.waiting(t, workflow.Purge)); diff != "" {
		t.Errorf("purge queue (-want +got):\n%s", diff)
	}
}

// An upload that is cancelled half-way keeps its mark, or no duty would ever remove its
// parts and what was made of them.
func TestReconcilerRemovesCancelledUploads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rec, err := b.videos.Create(t.Context(), video.Video{Meta: engine.Meta{
		ID: engine.NewID(), State: engine.AwaitingUpload, Priority: engine.Normal,
		Upload: &engine.Upload{Bytes: 9, PartBytes: 4, Epoch: "e"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	id := rec.Subject.ID
	rec, err = b.videos.Cancel(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	b.indexed(t, id, rec.Subject.UpdatedAt)
	b.pass(t)
	b.pass(t)
	if rec, err := b.videos.Get(t.Context(), id); err != nil || rec.Subject.State != engine.Cancelled {
		t.Fatalf("a cancelled upload was touched: %s, %v", rec.Subject.State, err)
	}
	b.rec.AbandonAfter = 0
	b.pass(t)
	if rec, err := b.videos.Get(t.Context(), id); err != nil || rec.Subject.State != engine.Deleting {
		t.Errorf("state %s, %v; want deleting", rec.Subject.State, err)
	}
}

// What a request reserved that died before it announced its video is given back; what
// one that goes on has reserved is not.
func TestReconcilerGivesBackWhatADeadRequestReserved(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.videos.SetLimits(videostore.Limits{Local: videostore.Quota{Waiting: 2}})
	b.create(t)
	unborn := video.Video{Meta: engine.Meta{
		ID: engine.NewID(), Owner: video.LocalOwner, State: engine.AwaitingUpload, Priority: engine.Normal,
	}}
	dying := videostore.New(azuritetest.FaultyAccount(t, b.account, func(r *http.Request) inject.Fault {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, workflow.VideosTable) {
			return inject.Reset
		}
		return inject.None
	}), b.queues)
	if _, err := dying.Create(t.Context(), unborn); err == nil {
		t.Fatal("the video was announced")
	}
	another := func() error {
		_, err := b.videos.Create(t.Context(), video.Video{Meta: engine.Meta{
			ID: engine.NewID(), Owner: video.LocalOwner, State: engine.AwaitingUpload, Priority: engine.Normal,
		}})
		return err
	}
	var full *videostore.QuotaError
	b.pass(t)
	if err := another(); !errors.As(err, &full) {
		t.Fatalf("a request that may go on lost its place: %v", err)
	}
	b.age(t, unborn.ID, 2*time.Minute)
	b.pass(t)
	if err := another(); err != nil {
		t.Errorf("the place of the dead request: %v", err)
	}
	if err := another(); !errors.As(err, &full) {
		t.Errorf("a third video of two: %v", err)
	}
}

func TestReconcilerSettlesWhatIsFinishedAndIndexed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.create(t)
	if _, err := b.videos.Change(t.Context(), id, "", func(v *video.Video) ([]engine.OutboxMessage, error) { v.Upload = nil; return nil, nil }); err != nil {
		t.Fatal(err) // parts that were sent would keep the mark
	}
	if _, err := b.videos.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := b.queues.Queue(workflow.Index).Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.pass(t)
	if diff := cmp.Diff([]string{"index"}, b.waiting(t, workflow.Index)); diff != "" {
		t.Errorf("the lost index message (-want +got):\n%s", diff)
	}
	rec, err := b.videos.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{rec.Subject.UpdatedAt.Add(-time.Second), rec.Subject.UpdatedAt} {
		if marks, err := b.marks(t); err != nil || len(marks) != 1 {
			t.Fatalf("in flight: %v, %v; want one mark until the newest META is indexed", marks, err)
		}
		b.indexed(t, id, at)
		b.pass(t)
	}
	if marks, err := b.marks(t); err != nil || len(marks) != 0 {
		t.Errorf("in flight: %v, %v; want nothing", marks, err)
	}
}

func TestJanitorKeepsWhatRowsName(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.create(t)
	if _, err := b.videos.Uploaded(t.Context(), id, epoch, "etag"); err != nil {
		t.Fatal(err)
	}
	claim := func(step string, index int) *videostore.Claim {
		c, err := b.videos.Claim(t.Context(), engine.Key{ID: id, Generation: 1, Step: step, Index: index}, fmt.Sprint(step, index), "w", time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	plan := video.Plan{
		Plan: engine.Plan{Generation: 1}, Chunks: []video.Chunk{{To: 1}, {From: 1, To: 2}}, HasAudio: true,
		Sound: []video.SoundPortion{{End: 1}}, FPS: video.Rational{Num: 1, Den: 1}, SegmentFrames: 1,
		Renditions: []video.Rendition{{Name: "240p"}},
	}
	plan.Promises = slices.DeleteFunc(workflow.PromisesFor(plan), func(p engine.Promise) bool { return p.After })
	if err := claim(workflow.StepProbe, 0).Commit(t.Context(), videostore.Commit{Plan: &plan, Edit: func(v *video.Video) { v.State = engine.Processing }}); err != nil {
		t.Fatal(err)
	}
	put := func(container, name string) string {
		if _, err := b.blobs.Put(t.Context(), container, name, []byte("x"), blobstore.Options{}); err != nil {
			t.Fatal(err)
		}
		return name
	}
	done := claim(workflow.StepEncode, 0)
	prefix := engine.Key{ID: id, Generation: 1, Step: workflow.StepEncode, Index: 0}.BlobPrefix(done.Run.Attempt)
	keep := []string{put(engine.MediaContainer, prefix+"240p.m4s"), put(engine.MediaContainer, prefix+"tiles.jpg")}
	if err := done.Commit(t.Context(), videostore.Commit{Output: video.ChunkOutput{Renditions: []video.RenditionOutput{{Blob: keep[0]}}, Tiles: keep[1]}}); err != nil {
		t.Fatal(err)
	}
	running := claim(workflow.StepEncode, 1)
	keep = append(keep, put(engine.MediaContainer, engine.Key{ID: id, Generation: 1, Step: workflow.StepEncode, Index: 1}.BlobPrefix(running.Run.Attempt)+"240p.m4s"))
	audio := claim(workflow.StepAudio, 0)
	part := put(engine.MediaContainer, audio.Run.Key.BlobPrefix(audio.Run.Attempt)+"00000.m4s")
	if err := audio.Commit(t.Context(), videostore.Commit{Output: video.AudioPart{Blob: part}}); err != nil {
		t.Fatal(err)
	}
	keep = append(keep, part)
	put(engine.MediaContainer, engine.Key{ID: id, Generation: 1, Step: workflow.StepEncode, Index: 0}.BlobPrefix("loser")+"240p.m4s")
	put(engine.MediaContainer, engine.Prefix(engine.NewID())+"x") // of a video that was purged
	put(engine.MediaContainer, "not-a-video/x")
	put(engine.SourcesContainer, sourceparts.PrefixOfAll(id)+epoch+"/00000")

	for _, grace := range []time.Duration{time.Hour, 0} {
		j := upkeep.Janitor[video.Video, video.Plan]{Store: b.videos.Store, Blobs: b.blobs, Grace: grace, Log: slog.New(slog.DiscardHandler)}
		if _, err := j.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		var left []string
		for blob, err := range b.blobs.List(t.Context(), engine.MediaContainer, "") {
			if err != nil {
				t.Fatal(err)
			}
			left = append(left, blob.Name)
		}
		if grace > 0 {
			if len(left) != len(keep)+3 {
				t.Errorf("within the grace time %d blobs are left, want all %d", len(left), len(keep)+3)
			}
			continue
		}
		slices.Sort(keep)
		if diff := cmp.Diff(keep, left); diff != "" {
			t.Errorf("blobs left (-want +got):\n%s", diff)
		}
	}
	if _, err := b.blobs.Head(t.Context(), engine.SourcesContainer, sourceparts.PrefixOfAll(id)+epoch+"/00000"); err != nil {
		t.Errorf("a part of the upload: %v", err)
	}
}

// leaseAnswers is a transport that counts how requests for leases were answered.
type leaseAnswers struct {
	next             *http.Client
	granted, refused atomic.Int32
}

func (l *leaseAnswers) Do(r *http.Request) (*http.Response, error) {
	answer, err := l.next.Do(r)
	if err == nil && r.URL.Query().Get("comp") == "lease" {
		switch answer.StatusCode {
		case http.StatusCreated: // a renewal is 200
			l.granted.Add(1)
		case http.StatusConflict:
			l.refused.Add(1)
		}
	}
	return answer, err
}

func TestOneLeaderAtATime(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	b := setup(t)
	var passes, told atomic.Int32
	stand := func() (*upkeep.Leader, *leaseAnswers, context.CancelFunc, chan struct{}) {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		answers := &leaseAnswers{next: &http.Client{Transport: transport}}
		own := azuritetest.AccountWith(t, func(cfg *azstore.Config) { cfg.Prefix, cfg.Transport = b.account.Prefix(), answers })
		l := &upkeep.Leader{Blobs: blobstore.New(own), Log: slog.New(slog.DiscardHandler), Duties: []upkeep.Duty{
			{Name: "count", Every: time.Hour, Do: func(context.Context) (int, error) {
				passes.Add(1)
				return 3, nil
			}},
		}, Passed: func(duty string, items int, failed bool, took time.Duration) {
			if duty == "count" && items == 3 && !failed && took > 0 {
				told.Add(1)
			}
		}}
		ctx, stop := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() { defer close(gone); l.Run(ctx) }()
		return l, answers, stop, gone
	}
	first, _, stopFirst, firstGone := stand()
	azuritetest.Eventually(t, 10*time.Second, func() error {
		if !first.Leading() || passes.Load() != 1 {
			return errors.New("there is no leader")
		}
		return nil
	})
	second, answers, stopSecond, secondGone := stand()
	defer func() { stopSecond(); <-secondGone }()
	azuritetest.Eventually(t, 10*time.Second, func() error {
		if answers.granted.Load()+answers.refused.Load() == 0 {
			return errors.New("the second has not asked for the lease")
		}
		return nil
	})
	if answers.granted.Load() > 0 || second.Leading() {
		t.Error("two lead")
	}
	stopFirst()
	<-firstGone // it gives the lease back, so its end is not waited for
	azuritetest.Eventually(t, 10*time.Second, func() error {
		if !second.Leading() || passes.Load() != 2 {
			return errors.New("the second does not take over")
		}
		return nil
	})
	azuritetest.Eventually(t, 10*time.Second, func() error {
		if told.Load() != 2 {
			return errors.New("the passes are not told of")
		}
		return nil
	})
}

// A leader that cannot renew its lease stops before another worker may lead, also when storage
// does not even answer (H8).
func TestLeaderStopsWithItsLease(t *testing.T) {
	azuritetest.Slow(t, "waits for a lease to end")
	t.Parallel()
	b := setup(t)
	storage := azuritetest.NewProxy(t)
	own := azuritetest.AccountWith(t, func(cfg *azstore.Config) {
		cfg.Prefix, cfg.ConnectionString = b.account.Prefix(), storage.ConnectionString()
	})
	ended := make(chan struct{})
	l := &upkeep.Leader{Blobs: blobstore.New(own), Log: slog.New(slog.DiscardHandler), Duties: []upkeep.Duty{
		{Name: "wait", Every: time.Hour, Do: func(ctx context.Context) (int, error) {
			storage.BeginAll(inject.Silence)
			<-ctx.Done()
			close(ended)
			return 0, nil
		}},
	}}
	ctx, stop := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() { defer close(gone); l.Run(ctx) }()
	defer func() { stop(); <-gone }()
	azuritetest.Eventually(t, time.Minute, func() error {
		if !l.Leading() {
			return errors.New("there is no leader")
		}
		return nil
	})
	azuritetest.Eventually(t, time.Minute, func() error {
		_, err := blobstore.New(b.account).AcquireLease(t.Context(), azq.ControlContainer, "upkeep", blobstore.MinLease)
		return err
	})
	select {
	case <-ended:
	default:
		t.Error("another worker leads, and the first goes on")
	}
}

// A duty that takes long does not delay another.
func TestDutiesHaveClocksOfTheirOwn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var short, long, failures atomic.Int32
	l := &upkeep.Leader{Passed: func(duty string, _ int, failed bool, _ time.Duration) {
		if duty == "long" {
			long.Add(1)
		}
		if failed {
			failures.Add(1)
		}
	}, Blobs: b.blobs, Log: slog.New(slog.DiscardHandler), Duties: []upkeep.Duty{
		{Name: "long", Every: time.Hour, Do: func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}},
		{Name: "short", Every: time.Millisecond, Do: func(context.Context) (int, error) {
			short.Add(1)
			return 0, nil
		}},
	}}
	ctx, stop := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() { defer close(gone); l.Run(ctx) }()
	azuritetest.Eventually(t, 10*time.Second, func() error {
		if short.Load() < 10 {
			return errors.New("the short duty waits for the long one")
		}
		return nil
	})
	stop()
	<-gone
	if long.Load() != 1 || failures.Load() != 0 {
		t.Errorf("a pass that the end of the term cut short: %d, %d failed", long.Load(), failures.Load())
	}
}

// ready makes a video whose first generation is finished, indexed and settled.
func (b *bench) ready(t *testing.T) engine.ID {
	t.Helper()
	id := b.create(t)
	if _, err := b.videos.Uploaded(t.Context(), id, epoch, "etag"); err != nil {
		t.Fatal(err)
	}
	for _, queue := range []string{workflow.Probe, workflow.Index} {
		if err := b.queues.Queue(queue).Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b.finish(t, id, 1)
	return id
}

func (b *bench) finish(t *testing.T, id engine.ID, generation int) {
	t.Helper()
	plan := video.Plan{
		Plan: engine.Plan{Generation: generation}, Chunks: []video.Chunk{{To: 9}},
		FPS: video.Rational{Num: 1, Den: 1}, SegmentFrames: 1, Renditions: []video.Rendition{{Name: "240p"}},
	}
	plan.Promises = slices.DeleteFunc(workflow.PromisesFor(plan), func(p engine.Promise) bool { return p.After })
	rec, err := b.videos.Change(t.Context(), id, "", func(v *video.Video) ([]engine.OutboxMessage, error) {
		v.State = engine.Processing
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{workflow.StepProbe, workflow.StepEncode, workflow.StepFinish} {
		c, err := b.videos.Claim(t.Context(), engine.Key{ID: id, Generation: generation, Step: step}, step, "w", time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		commit := videostore.Commit{Output: video.ChunkOutput{Frames: 9}}
		switch step {
		case workflow.StepProbe:
			commit.Plan = &plan
		case workflow.StepFinish:
			commit.Output = video.FinishOutput{Frames: 9}
			commit.Edit = func(v *video.Video) { v.State, v.Serving = engine.Ready, generation }
		}
		if err := errors.Join(c.Commit(t.Context(), commit), c.SendOutbox(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	for _, queue := range []string{workflow.EncodeFirst, workflow.EncodeLow, workflow.Index} { // what the commits promised
		if err := b.queues.Queue(queue).Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if rec, err = b.videos.Get(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	b.indexed(t, id, rec.Subject.UpdatedAt)
}

func (b *bench) ask(t *testing.T, id engine.ID, first int) engine.Key {
	t.Helper()
	key := engine.Key{ID: id, Generation: 1, Step: workflow.StepClip, Index: first, Length: 2}
	if _, err := b.videos.RequestClip(t.Context(), key, video.LocalOwner); err != nil {
		t.Fatal(err)
	}
	return key
}

// The reconciler gives a clip its message back, whether it was never sent or
// lost, and settles the video when the clip is done, without indexing it again.
func TestReconcilerLooksAfterClips(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.ready(t)
	b.pass(t)
	if marks, err := b.marks(t); err != nil || len(marks) != 0 {
		t.Fatalf("in flight: %v, %v; want nothing before the clip", marks, err)
	}
	b.queues.shut.Store(true) // the web role dies between row and message
	key := engine.Key{ID: id, Generation: 1, Step: workflow.StepClip, Index: 3, Length: 2}
	if _, err := b.videos.RequestClip(t.Context(), key, video.LocalOwner); !errors.Is(err, errShut) {
		t.Fatal(err)
	}
	b.queues.shut.Store(false)
	for range 2 { // the second finds the message there
		b.pass(t)
		if diff := cmp.Diff([]string{"clip"}, b.waiting(t, workflow.EncodeHigh)); diff != "" {
			t.Errorf("encode-high (-want +got):\n%s", diff)
		}
	}
	if _, err := b.videos.Claim(t.Context(), key, "lost message", "dead worker", time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := b.queues.Queue(workflow.EncodeHigh).Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.pass(t)
	if diff := cmp.Diff([]string{"clip"}, b.waiting(t, workflow.EncodeHigh)); diff != "" {
		t.Errorf("encode-high after the message was lost (-want +got):\n%s", diff)
	}
	c, err := b.videos.Claim(t.Context(), key, "new message", "live worker", time.Time{})
	if err != nil {
		t.Fatalf("the new message cannot take the clip over: %v", err)
	}
	if err := c.Commit(t.Context(), videostore.Commit{Output: video.ClipOutput{Blob: "b"}}); err != nil {
		t.Fatal(err)
	}
	rec, err := b.videos.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	b.indexed(t, id, rec.Subject.UpdatedAt) // the repair wrote META
	b.pass(t)
	if marks, err := b.marks(t); err != nil || len(marks) != 0 {
		t.Errorf("in flight: %v, %v; want nothing after the clip", marks, err)
	}

	// The ordinary case costs the index nothing.
	key = b.ask(t, id, 5)
	if c, err = b.videos.Claim(t.Context(), key, "m", "w", time.Time{}); err == nil {
		err = c.Commit(t.Context(), videostore.Commit{Output: video.ClipOutput{Blob: "b"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	b.pass(t)
	if marks, err := b.marks(t); err != nil || len(marks) != 0 || len(b.waiting(t, workflow.Index)) != 0 {
		t.Errorf("in flight: %v, %v, index: %v; want nothing", marks, err, b.waiting(t, workflow.Index))
	}
}

// whole is where the last step of a generation wrote.
func (b *bench) whole(t *testing.T, id engine.ID, generation int) string {
	t.Helper()
	view, err := b.videos.View(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	step, _ := view.Find(generation, workflow.StepFinish, 0)
	return step.Key.BlobPrefix(step.Attempt)
}

// Clips stay when their generation is replaced, and a generation stays while a
// clip is to be cut from it; output of lost attempts goes.
func TestJanitorKeepsClips(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.ready(t)
	put := func(key engine.Key, attempt, name string) string {
		name = key.BlobPrefix(attempt) + name
		if _, err := b.blobs.Put(t.Context(), engine.MediaContainer, name, []byte("x"), blobstore.Options{}); err != nil {
			t.Fatal(err)
		}
		return name
	}
	sweep := func(want ...string) {
		t.Helper()
		j := upkeep.Janitor[video.Video, video.Plan]{Store: b.videos.Store, Blobs: b.blobs, Log: slog.New(slog.DiscardHandler)}
		if _, err := j.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		var left []string
		for blob, err := range b.blobs.List(t.Context(), engine.MediaContainer, "") {
			if err != nil {
				t.Fatal(err)
			}
			left = append(left, blob.Name)
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, left); diff != "" {
			t.Errorf("blobs left (-want +got):\n%s", diff)
		}
	}
	segments := b.whole(t, id, 1) + "segments"
	if _, err := b.blobs.Put(t.Context(), engine.MediaContainer, segments, []byte("x"), blobstore.Options{}); err != nil {
		t.Fatal(err)
	}
	done, running := b.ask(t, id, 1), b.ask(t, id, 2)
	put(done, "killed", "clip.mp4")
	c, err := b.videos.Claim(t.Context(), done, "m1", "w", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	clip := put(done, c.Run.Attempt, "clip.mp4")
	if err := c.Commit(t.Context(), videostore.Commit{Output: video.ClipOutput{Blob: clip}}); err != nil {
		t.Fatal(err)
	}
	other, err := b.videos.Claim(t.Context(), running, "m2", "w", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	half := put(running, other.Run.Attempt, "clip.mp4")

	if _, err := b.videos.Reprocess(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	b.finish(t, id, 2)
	sweep(clip, half, segments)
	if err := other.Fail(t.Context(), &engine.Failure{Code: engine.ProcessingFailed}); err != nil {
		t.Fatal(err)
	}
	sweep(clip)
}

// While the register shows a leader that goes on, no other worker asks for the lease. When it
// shows it no more, one does.
func TestTheRegisterSavesRequestsForTheLease(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	b := setup(t)
	var stands atomic.Bool
	seen := time.Now()
	l := &upkeep.Leader{Blobs: b.blobs, Log: slog.New(slog.DiscardHandler), Peers: func(context.Context) ([]workers.Worker, error) {
		if !stands.Load() {
			seen = seen.Add(3 * time.Second)
		}
		return []workers.Worker{{Name: "other", Leader: true, SeenAt: seen}, {Name: "third"}}, nil
	}}
	ctx, counter := azstore.WithCounter(t.Context())
	ctx, stop := context.WithCancel(ctx)
	gone := make(chan struct{})
	go func() { defer close(gone); l.Run(ctx) }()
	defer func() { stop(); <-gone }()
	<-time.After(12 * time.Second)
	if n := counter.Requests(); n != 0 || l.Leading() {
		t.Errorf("beside a leader that goes on, %d requests for its lease, leads: %v", n, l.Leading())
	}
	stands.Store(true)
	azuritetest.Eventually(t, 25*time.Second, func() error {
		if !l.Leading() {
			return errors.New("does not lead, though the other says nothing more")
		}
		return nil
	})
}

// A worker without items writes its row seldom, and one with items every 3 s.
func TestHeartbeatsOfIdleWorkersAreRare(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	account := azuritetest.Account(t)
	if err := account.Ensure(t.Context(), azstore.Names{Tables: []string{workers.Table}}); err != nil {
		t.Fatal(err)
	}
	beats := func(w workers.Worker) int {
		ctx, counter := azstore.WithCounter(t.Context())
		ctx, stop := context.WithTimeout(ctx, 8*time.Second)
		defer stop()
		upkeep.Heartbeat(ctx, workers.New(account), func() workers.Worker { return w }, slog.Default())
		return counter.Counts().Requests[azstore.TableWrite]
	}
	var busy, idle int
	var both sync.WaitGroup
	both.Go(func() { idle = beats(workers.Worker{Name: "idle"}) })
	both.Go(func() {
		busy = beats(workers.Worker{Name: "busy", Busy: []azq.Running{{Delivery: azq.Delivery{MessageID: "m"}}}})
	})
	both.Wait()
	if idle != 1 || busy < 2 {
		t.Errorf("%d heartbeats of an idle worker in 8 s, want 1, and %d of a busy one, want 2 or more", idle, busy)
	}
}

// A heartbeat tells within seconds that an item began, and does not wait for its turn.
func TestHeartbeatTellsWhatChanged(t *testing.T) {
	t.Parallel()
	account := azuritetest.Account(t)
	if err := account.Ensure(t.Context(), azstore.Names{Tables: []string{workers.Table}}); err != nil {
		t.Fatal(err)
	}
	register := workers.New(account)
	var now atomic.Pointer[workers.Worker]
	now.Store(&workers.Worker{Name: "w"})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		upkeep.Heartbeat(ctx, register, func() workers.Worker { return *now.Load() }, slog.Default())
	}()
	told := func(want int) time.Time {
		t.Helper()
		var seen time.Time
		azuritetest.Eventually(t, 10*time.Second, func() error {
			list, err := register.List(t.Context(), time.Time{})
			if err == nil && (len(list) != 1 || len(list[0].Busy) != want) {
				err = fmt.Errorf("the register has %+v", list)
			}
			if err == nil {
				seen = list[0].SeenAt
			}
			return err
		})
		return seen
	}
	first := told(0)
	now.Store(&workers.Worker{Name: "w", Busy: []azq.Running{{Delivery: azq.Delivery{MessageID: "m"}}}})
	if second := told(1); second.Sub(first) > 2*time.Second+500*time.Millisecond {
		t.Errorf("the register knew after %v", second.Sub(first))
	}
	stop()
	<-ended
	if list, err := register.List(t.Context(), time.Time{}); err != nil || len(list) != 0 {
		t.Errorf("after the end: %+v, %v", list, err)
	}
}
