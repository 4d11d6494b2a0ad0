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
	"github.com/cutroom/cutroom/shared/engine/enginetest"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
	"github.com/cutroom/cutroom/shared/engine/upkeep"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

// declared are the steps of sums, of which some have queues of their own here.
var declared = func() engine.Declaration {
	d := enginetest.Sums()
	for i, s := range d.Steps {
		if s.Stage == engine.First || s.Stage == engine.OnChange || s.Stage == engine.OnDelete {
			d.Steps[i].Queues = []string{s.Name}
		}
	}
	d.Queues = enginetest.Queues(time.Minute, d)
	return d
}()

func newStore(a *azstore.Account, sender engine.Sender) *enginetest.Store {
	return enginetest.NewStore(a, sender, declared)
}

// plan promises a run of add for each pair, and of square, if wanted.
func plan(generation, pairs int, squares bool) enginetest.Plan {
	p := enginetest.Plan{Plan: engine.Plan{Generation: generation}, Numbers: make([]int, 2*pairs)}
	p.Promises = slices.DeleteFunc(declared.PromisesFor(p.Counts()), func(p engine.Promise) bool {
		return p.After || p.Step == enginetest.Square && !squares
	})
	return p
}

// gate is a sender that can be shut.
type gate struct {
	*azq.Client
	shut atomic.Bool
	sent func() // unless nil: when an item is there
}

var errShut = errors.New("queue is away")

func (g *gate) SendItem(ctx context.Context, queue string, item azq.Item, delay time.Duration) error {
	if g.shut.Load() {
		return errShut
	}
	err := g.Client.SendItem(ctx, queue, item, delay)
	if g.sent != nil && err == nil {
		g.sent()
	}
	return err
}

type bench struct {
	account *azstore.Account
	queues  *gate
	sums    *enginetest.Store
	blobs   *blobstore.Store
	rec     upkeep.Reconciler[enginetest.Sum, enginetest.Plan]
}

func setup(t *testing.T) *bench {
	t.Helper()
	a := azuritetest.Account(t)
	b := &bench{account: a, queues: &gate{Client: azq.Open(a, azq.Options{Queues: declared.Queues})}, blobs: blobstore.New(a)}
	if err := b.queues.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Ensure(t.Context(), azstore.Names{Containers: []string{engine.MediaContainer, engine.SourcesContainer}, Tables: enginetest.SumNames.Tables}); err != nil {
		t.Fatal(err)
	}
	b.sums = newStore(a, b.queues)
	b.rec = upkeep.Reconciler[enginetest.Sum, enginetest.Plan]{
		Store: b.sums, CreateTimeout: time.Minute, AbandonAfter: time.Hour, OrphanAfter: time.Hour, Log: slog.New(slog.DiscardHandler),
		Queue: upkeep.StateIn(b.queues.Client),
	}
	return b
}

// epoch is that of the upload of every sum of create.
const epoch = "e"

func (b *bench) create(t *testing.T) engine.ID {
	t.Helper()
	id := engine.NewID()
	v := enginetest.Sum{Meta: engine.Meta{
		ID: id, Owner: "owner", Channel: string(id), State: engine.AwaitingUpload,
		Priority: engine.Normal, Upload: &engine.Upload{Bytes: 1, PartBytes: 1, Epoch: epoch},
	}}
	if _, err := b.sums.Create(t.Context(), v); err != nil {
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
	for mark, err := range b.sums.Inflight(t.Context()) {
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
	mark, err := b.sums.InflightMark(t.Context(), id)
	if err == nil {
		err = b.sums.MarkIndexed(t.Context(), mark, updatedAt)
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
	if _, err := b.sums.Uploaded(t.Context(), id, epoch, "etag"); !errors.Is(err, errShut) {
		t.Fatal(err)
	}
	b.queues.shut.Store(false)
	b.pass(t)
	if diff := cmp.Diff([]string{"split"}, b.waiting(t, enginetest.Split)); diff != "" {
		t.Errorf("queue (-want +got):\n%s", diff)
	}
	b.pass(t)
	if got := b.waiting(t, enginetest.Split); len(got) != 1 {
		t.Errorf("a second pass sent again although the message is there: %v", got)
	}
}

func TestReconcilerReplacesALostMessage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.create(t)
	if _, err := b.sums.Uploaded(t.Context(), id, epoch, "etag"); err != nil {
		t.Fatal(err)
	}
	key := engine.Key{ID: id, Generation: 1, Step: enginetest.Split}
	if _, err := b.sums.Claim(t.Context(), key, "lost message", "dead worker", time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := b.queues.Queue(enginetest.Split).Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	var taken error
	b.queues.sent = func() { // an idle worker has it at once
		_, taken = b.sums.Claim(t.Context(), key, "new message", "live worker", time.Time{})
	}
	b.pass(t)
	if got := b.waiting(t, enginetest.Split); len(got) != 1 {
		t.Fatalf("queue: %v, want the message again", got)
	}
	if taken != nil {
		t.Errorf("the new message cannot take the step over: %v", taken)
	}
}

func TestReconcilerRemovesAbandonedUploads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.create(t)
	b.pass(t)
	if rec, err := b.sums.Get(t.Context(), id); err != nil || rec.Subject.State != engine.AwaitingUpload {
		t.Fatalf("a fresh upload was touched: %s, %v", rec.Subject.State, err)
	}
	b.rec.AbandonAfter = 0
	b.pass(t)
	if rec, err := b.sums.Get(t.Context(), id); err != nil || rec.Subject.State != engine.Deleting {
		t.Errorf("state %s, %v; want deleting", rec.Subject.State, err)
	}
	if diff := cmp.Diff([]string{"erase"}, b.waiting(t, enginetest.Erase)); diff != "" {
		t.Errorf("queue (-want +got):\n%s", diff)
	}
}

// An upload that is cancelled half-way keeps its mark, or no duty would ever remove its
// parts and what was made of them.
func TestReconcilerRemovesCancelledUploads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rec, err := b.sums.Create(t.Context(), enginetest.Sum{Meta: engine.Meta{
		ID: engine.NewID(), State: engine.AwaitingUpload, Priority: engine.Normal,
		Upload: &engine.Upload{Bytes: 9, PartBytes: 4, Epoch: "e"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	id := rec.Subject.ID
	rec, err = b.sums.Cancel(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	b.indexed(t, id, rec.Subject.UpdatedAt)
	b.pass(t)
	b.pass(t)
	if rec, err := b.sums.Get(t.Context(), id); err != nil || rec.Subject.State != engine.Cancelled {
		t.Fatalf("a cancelled upload was touched: %s, %v", rec.Subject.State, err)
	}
	b.rec.AbandonAfter = 0
	b.pass(t)
	if rec, err := b.sums.Get(t.Context(), id); err != nil || rec.Subject.State != engine.Deleting {
		t.Errorf("state %s, %v; want deleting", rec.Subject.State, err)
	}
}

// places are the quota of these tests: so many sums may be there at once.
type places struct {
	sums *enginetest.Store
	most int
	mu   sync.Mutex
	held map[engine.ID]bool
}

func (p *places) Reserve(_ context.Context, sum enginetest.Sum) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.held[sum.ID] && len(p.held) >= p.most {
		return engine.ErrRefused
	}
	p.held[sum.ID] = true
	return nil
}

func (p *places) CountOwned(ctx context.Context, id engine.ID) error {
	_, err := p.sums.Get(ctx, id)
	if !errors.Is(err, engine.ErrNotFound) {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.held, id)
	return nil
}

func (*places) TakePlace(context.Context, string, engine.Key) error { return nil }

// What a request reserved that died before it announced its sum is given back; what
// one that goes on has reserved is not.
func TestReconcilerGivesBackWhatADeadRequestReserved(t *testing.T) {
	t.Parallel()
	b := setup(t)
	quota := &places{sums: b.sums, most: 2, held: map[engine.ID]bool{}}
	b.sums.Quotas = quota
	b.create(t)
	unborn := enginetest.Awaiting()
	dying := newStore(azuritetest.FaultyAccount(t, b.account, func(r *http.Request) inject.Fault {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, declared.Table) {
			return inject.Reset
		}
		return inject.None
	}), b.queues)
	dying.Quotas = quota
	if _, err := dying.Create(t.Context(), unborn); err == nil {
		t.Fatal("the sum was announced")
	}
	another := func() error {
		_, err := b.sums.Create(t.Context(), enginetest.Awaiting())
		return err
	}
	b.pass(t)
	if err := another(); !errors.Is(err, engine.ErrRefused) {
		t.Fatalf("a request that may go on lost its place: %v", err)
	}
	b.age(t, unborn.ID, 2*time.Minute)
	b.pass(t)
	if err := another(); err != nil {
		t.Errorf("the place of the dead request: %v", err)
	}
	if err := another(); !errors.Is(err, engine.ErrRefused) {
		t.Errorf("a third sum of two: %v", err)
	}
}

func TestReconcilerSettlesWhatIsFinishedAndIndexed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.create(t)
	if _, err := b.sums.Change(t.Context(), id, "", func(v *enginetest.Sum) ([]engine.OutboxMessage, error) { v.Upload = nil; return nil, nil }); err != nil {
		t.Fatal(err) // parts that were sent would keep the mark
	}
	if _, err := b.sums.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := b.queues.Queue(enginetest.List).Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.pass(t)
	if diff := cmp.Diff([]string{"list"}, b.waiting(t, enginetest.List)); diff != "" {
		t.Errorf("the lost index message (-want +got):\n%s", diff)
	}
	rec, err := b.sums.Get(t.Context(), id)
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
	if _, err := b.sums.Uploaded(t.Context(), id, epoch, "etag"); err != nil {
		t.Fatal(err)
	}
	claim := func(step string, index int) *enginetest.Claim {
		c, err := b.sums.Claim(t.Context(), engine.Key{ID: id, Generation: 1, Step: step, Index: index}, fmt.Sprint(step, index), "w", time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	plan := plan(1, 2, true)
	if err := claim(enginetest.Split, 0).Commit(t.Context(), enginetest.Commit{Plan: &plan, Edit: func(v *enginetest.Sum) { v.State = engine.Processing }}); err != nil {
		t.Fatal(err)
	}
	put := func(container, name string) string {
		if _, err := b.blobs.Put(t.Context(), container, name, []byte("x"), blobstore.Options{}); err != nil {
			t.Fatal(err)
		}
		return name
	}
	done := claim(enginetest.Add, 0)
	prefix := engine.Key{ID: id, Generation: 1, Step: enginetest.Add, Index: 0}.BlobPrefix(done.Run.Attempt)
	keep := []string{put(engine.MediaContainer, prefix+"value.json"), put(engine.MediaContainer, prefix+"more.json")}
	if err := done.Commit(t.Context(), enginetest.Commit{Output: enginetest.Made{Blob: keep[0]}}); err != nil {
		t.Fatal(err)
	}
	running := claim(enginetest.Add, 1)
	keep = append(keep, put(engine.MediaContainer, engine.Key{ID: id, Generation: 1, Step: enginetest.Add, Index: 1}.BlobPrefix(running.Run.Attempt)+"value.json"))
	square := claim(enginetest.Square, 0)
	part := put(engine.MediaContainer, square.Run.Key.BlobPrefix(square.Run.Attempt)+"00000.m4s")
	if err := square.Commit(t.Context(), enginetest.Commit{Output: enginetest.Made{Blob: part}}); err != nil {
		t.Fatal(err)
	}
	keep = append(keep, part)
	put(engine.MediaContainer, engine.Key{ID: id, Generation: 1, Step: enginetest.Add, Index: 0}.BlobPrefix("loser")+"value.json")
	put(engine.MediaContainer, engine.Prefix(engine.NewID())+"x") // of a sum that was purged
	put(engine.MediaContainer, "not-a-sum/x")
	put(engine.SourcesContainer, sourceparts.PrefixOfAll(id)+epoch+"/00000")

	for _, grace := range []time.Duration{time.Hour, 0} {
		j := upkeep.Janitor[enginetest.Sum, enginetest.Plan]{Store: b.sums, Blobs: b.blobs, Grace: grace, Log: slog.New(slog.DiscardHandler)}
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

// ready makes a sum whose first generation is finished, indexed and settled.
func (b *bench) ready(t *testing.T) engine.ID {
	t.Helper()
	id := b.create(t)
	if _, err := b.sums.Uploaded(t.Context(), id, epoch, "etag"); err != nil {
		t.Fatal(err)
	}
	for _, queue := range []string{enginetest.Split, enginetest.List} {
		if err := b.queues.Queue(queue).Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b.finish(t, id, 1)
	return id
}

func (b *bench) finish(t *testing.T, id engine.ID, generation int) {
	t.Helper()
	plan := plan(generation, 1, false)
	rec, err := b.sums.Change(t.Context(), id, "", func(v *enginetest.Sum) ([]engine.OutboxMessage, error) {
		v.State = engine.Processing
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{enginetest.Split, enginetest.Add, enginetest.Total} {
		c, err := b.sums.Claim(t.Context(), engine.Key{ID: id, Generation: generation, Step: step}, step, "w", time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		commit := enginetest.Commit{Output: enginetest.Made{Value: 9}}
		switch step {
		case enginetest.Split:
			commit.Plan = &plan
		case enginetest.Total:
			commit.Output = enginetest.Made{Value: 9}
			commit.Edit = func(v *enginetest.Sum) { v.State, v.Serving = engine.Ready, generation }
		}
		if err := errors.Join(c.Commit(t.Context(), commit), c.SendOutbox(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	for _, queue := range []string{enginetest.First, enginetest.Bulk, enginetest.List} { // what the commits promised
		if err := b.queues.Queue(queue).Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if rec, err = b.sums.Get(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	b.indexed(t, id, rec.Subject.UpdatedAt)
}

func (b *bench) ask(t *testing.T, id engine.ID, first int) engine.Key {
	t.Helper()
	key := engine.Key{ID: id, Generation: 1, Step: enginetest.Average, Index: first, Length: 2}
	if err := b.request(t, key); err != nil {
		t.Fatal(err)
	}
	return key
}

// request asks for an average unless it is asked for.
func (b *bench) request(t *testing.T, key engine.Key) error {
	_, err := b.sums.Request(t.Context(), key, func(_ enginetest.Sum, run *engine.Run) (bool, error) {
		return run.State == "" || run.State == engine.RunFailed, nil
	})
	return err
}

// The reconciler gives a average its message back, whether it was never sent or
// lost, and settles the sum when the average is done, without indexing it again.
func TestReconcilerLooksAfterRequests(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.ready(t)
	b.pass(t)
	if marks, err := b.marks(t); err != nil || len(marks) != 0 {
		t.Fatalf("in flight: %v, %v; want nothing before the average", marks, err)
	}
	b.queues.shut.Store(true) // the web role dies between row and message
	key := engine.Key{ID: id, Generation: 1, Step: enginetest.Average, Index: 3, Length: 2}
	if err := b.request(t, key); !errors.Is(err, errShut) {
		t.Fatal(err)
	}
	b.queues.shut.Store(false)
	for range 2 { // the second finds the message there
		b.pass(t)
		if diff := cmp.Diff([]string{"average"}, b.waiting(t, enginetest.Bulk)); diff != "" {
			t.Errorf("bulk (-want +got):\n%s", diff)
		}
	}
	if _, err := b.sums.Claim(t.Context(), key, "lost message", "dead worker", time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := b.queues.Queue(enginetest.Bulk).Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.pass(t)
	if diff := cmp.Diff([]string{"average"}, b.waiting(t, enginetest.Bulk)); diff != "" {
		t.Errorf("bulk after the message was lost (-want +got):\n%s", diff)
	}
	c, err := b.sums.Claim(t.Context(), key, "new message", "live worker", time.Time{})
	if err != nil {
		t.Fatalf("the new message cannot take the average over: %v", err)
	}
	if err := c.Commit(t.Context(), enginetest.Commit{Output: enginetest.Made{Blob: "b"}}); err != nil {
		t.Fatal(err)
	}
	rec, err := b.sums.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	b.indexed(t, id, rec.Subject.UpdatedAt) // the repair wrote META
	b.pass(t)
	if marks, err := b.marks(t); err != nil || len(marks) != 0 {
		t.Errorf("in flight: %v, %v; want nothing after the average", marks, err)
	}

	// The ordinary case costs the index nothing.
	key = b.ask(t, id, 5)
	if c, err = b.sums.Claim(t.Context(), key, "m", "w", time.Time{}); err == nil {
		err = c.Commit(t.Context(), enginetest.Commit{Output: enginetest.Made{Blob: "b"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	b.pass(t)
	if marks, err := b.marks(t); err != nil || len(marks) != 0 || len(b.waiting(t, enginetest.List)) != 0 {
		t.Errorf("in flight: %v, %v, index: %v; want nothing", marks, err, b.waiting(t, enginetest.List))
	}
}

// whole is where the last step of a generation wrote.
func (b *bench) whole(t *testing.T, id engine.ID, generation int) string {
	t.Helper()
	view, err := b.sums.View(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	step, _ := view.Find(generation, enginetest.Total, 0)
	return step.Key.BlobPrefix(step.Attempt)
}

// Averages stay when their generation is replaced, and a generation stays while a
// average is to be made of it; output of lost attempts goes.
func TestJanitorKeepsRequests(t *testing.T) {
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
		j := upkeep.Janitor[enginetest.Sum, enginetest.Plan]{Store: b.sums, Blobs: b.blobs, Log: slog.New(slog.DiscardHandler)}
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
	put(done, "killed", "value.json")
	c, err := b.sums.Claim(t.Context(), done, "m1", "w", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	average := put(done, c.Run.Attempt, "value.json")
	if err := c.Commit(t.Context(), enginetest.Commit{Output: enginetest.Made{Blob: average}}); err != nil {
		t.Fatal(err)
	}
	other, err := b.sums.Claim(t.Context(), running, "m2", "w", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	half := put(running, other.Run.Attempt, "value.json")

	if _, err := b.sums.Reprocess(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	b.finish(t, id, 2)
	sweep(average, half, segments)
	if err := other.Fail(t.Context(), &engine.Failure{Code: engine.ProcessingFailed}); err != nil {
		t.Fatal(err)
	}
	sweep(average)
}
