package upkeep_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
	"github.com/cutroom/cutroom/shared/engine/upkeep"
)

func (b *bench) janitor() *upkeep.Janitor[enginetest.Sum, enginetest.Plan] {
	return &upkeep.Janitor[enginetest.Sum, enginetest.Plan]{Store: b.sums, Blobs: b.blobs, Log: slog.New(slog.DiscardHandler)}
}

func (b *bench) put(t *testing.T, container, name string) string {
	t.Helper()
	if _, err := b.blobs.Put(t.Context(), container, name, []byte("x"), blobstore.Options{}); err != nil {
		t.Fatal(err)
	}
	return name
}

// blobsLeft lists the blobs of all sums, by container.
func (b *bench) blobsLeft(t *testing.T) (left []string) {
	t.Helper()
	for _, container := range []string{engine.SourcesContainer, engine.MediaContainer, azq.ClaimsContainer} {
		for blob, err := range b.blobs.List(t.Context(), container, "") {
			if err != nil {
				t.Fatal(err)
			}
			left = append(left, container+": "+blob.Name)
		}
	}
	return left
}

// rowKeys lists the rows of a sum.
func (b *bench) rowKeys(t *testing.T, id engine.ID) (keys []string) {
	t.Helper()
	rows := tablestore.New(b.account, declared.Table)
	for row, err := range rows.Query(t.Context(), tablestore.Query{PartitionKey: string(id), Class: tablestore.RowRange}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, row.RowKey)
	}
	return keys
}

// A row in the middle that cannot be read keeps all blobs of its sum, is reported, and
// does not stop the pass. Each sum is read once for each container.
func TestJanitorStepsOverWhatItCannotRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const sums = 9
	var ids []engine.ID
	for range sums {
		ids = append(ids, b.create(t))
	}
	slices.Sort(ids)
	var want []string
	for i, id := range ids {
		source := b.put(t, engine.SourcesContainer, sourceparts.PrefixOfAll(id)+epoch+"/00000")
		want = append(want, engine.SourcesContainer+": "+source)
		for _, container := range []string{engine.SourcesContainer, engine.MediaContainer, azq.ClaimsContainer} {
			orphan := b.put(t, container, string(id)+"/orphan")
			if i == sums/2 {
				want = append(want, container+": "+orphan)
			}
		}
	}
	table := tablestore.New(b.account, declared.Table)
	broken := tablestore.Entity{PartitionKey: string(ids[sums/2]), RowKey: "STEP:1", Props: map[string]any{"State": "done"}}
	if _, err := table.Insert(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	wire := azuritetest.NewWire(t)
	wired := azuritetest.AccountWith(t, func(cfg *azstore.Config) {
		cfg.ConnectionString, cfg.Prefix = wire.ConnectionString(), b.account.Prefix()
	})
	j := b.janitor()
	j.Store = newStore(wired, b.queues)
	items, err := j.Pass(t.Context())
	if err != nil || items != 3*sums {
		t.Fatalf("looked at %d sums, %v; want %d in each container", items, err, sums)
	}
	calls := slices.DeleteFunc(wire.Take(), func(c azuritetest.TableCall) bool { return !strings.HasSuffix(c.Table, declared.Table) })
	if len(calls) != 3*sums {
		t.Errorf("%d requests to the sums' table for %d sums in three containers", len(calls), sums)
	}
	left := b.blobsLeft(t)
	slices.Sort(left)
	slices.Sort(want)
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("blobs left (-want +got):\n%s", diff)
	}
}

// A claim check stays while its message may wait, however old it is.
func TestJanitorKeepsClaimChecksUnderWay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	waiting := b.create(t)
	for _, id := range []engine.ID{waiting, engine.NewID()} {
		key := engine.Key{ID: id, Generation: 1, Step: enginetest.Add, Index: 3}
		item, err := azq.NewItem(key.Step, string(id), key.ItemID(), strings.Repeat("x", 60_000))
		if err == nil {
			err = b.queues.SendItem(t.Context(), enginetest.Split, item, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.janitor().Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := b.blobsLeft(t)
	if len(left) != 1 || !strings.HasPrefix(left[0], azq.ClaimsContainer+": "+string(waiting)+"/") {
		t.Errorf("blobs left: %v; want the claim check of %s alone", left, waiting)
	}
}

// Rows of a replaced generation go when it can no longer be watched, and
// its blobs with them; averages and the generation that plays stay.
func TestJanitorRemovesReplacedGenerations(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.ready(t)
	b.put(t, engine.MediaContainer, string(id)+"/finished1/master.m3u8")
	average := b.ask(t, id, 3)
	c, err := b.sums.Claim(t.Context(), average, "m", "w", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Commit(t.Context(), enginetest.Commit{Output: enginetest.Made{Blob: "b"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.sums.Reprocess(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := b.queues.Queue(enginetest.Split).Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.finish(t, id, 2)
	plays := b.put(t, engine.MediaContainer, b.whole(t, id, 2)+"master.m3u8")
	if _, err := b.sums.Change(t.Context(), id, "", func(v *enginetest.Sum) ([]engine.OutboxMessage, error) {
		v.ReadyAt = time.Now()
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	j := b.janitor()
	run := func() {
		t.Helper()
		if _, err := j.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	all := b.rowKeys(t, id)
	j.Grace = time.Hour
	run()
	if diff := cmp.Diff(all, b.rowKeys(t, id)); diff != "" {
		t.Errorf("rows within the grace time (-before +after):\n%s", diff)
	}
	j.Grace = 0
	run()
	want := slices.DeleteFunc(slices.Clone(all), func(key string) bool {
		return strings.HasPrefix(key, "STEP:00001") || strings.HasPrefix(key, "PLAN:00001") || key == "NEXT:00001"
	})
	if len(want) == len(all) {
		t.Fatalf("there is nothing to remove in %v", all)
	}
	if diff := cmp.Diff(want, b.rowKeys(t, id)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{engine.MediaContainer + ": " + plays}, b.blobsLeft(t)); diff != "" {
		t.Errorf("blobs (-want +got):\n%s", diff)
	}
}

// Averages go when their time is over, rows before blobs; what is being made stays,
// and so does everything when averages are kept for ever.
func TestJanitorRemovesOldRequests(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.ready(t)
	made, failed, waiting := b.ask(t, id, 1), b.ask(t, id, 2), b.ask(t, id, 3)
	c, err := b.sums.Claim(t.Context(), made, "m", "w", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	blob := b.put(t, engine.MediaContainer, engine.Key{ID: id, Generation: 1, Step: enginetest.Average, Index: 1}.BlobPrefix(c.Run.Attempt)+"value.json")
	if err := c.Commit(t.Context(), enginetest.Commit{Output: enginetest.Made{Blob: blob}}); err != nil {
		t.Fatal(err)
	}
	if err := b.sums.FailStep(t.Context(), failed, &engine.Failure{Code: engine.ProcessingFailed}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		life time.Duration
		want []engine.Key
	}{
		{0, []engine.Key{made, failed, waiting}},
		{time.Hour, []engine.Key{made, failed, waiting}},
		{time.Nanosecond, []engine.Key{waiting}},
	} {
		j := b.janitor()
		j.RequestLife = c.life
		if _, err := j.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		averages, _, err := b.sums.Requests(t.Context(), id, enginetest.Average, 10, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		var keys []engine.Key
		for _, average := range averages {
			keys = append(keys, average.Key)
		}
		if diff := cmp.Diff(c.want, keys); diff != "" {
			t.Errorf("averages with a life of %v (-want +got):\n%s", c.life, diff)
		}
		if there := len(b.blobsLeft(t)) == 1; there != slices.Contains(c.want, made) {
			t.Errorf("blobs with a life of %v: %v", c.life, b.blobsLeft(t))
		}
	}
	again := b.ask(t, id, 1)
	if average, err := b.sums.ReadRun(t.Context(), again); err != nil || average.State != engine.RunQueued {
		t.Errorf("asked for once more: %s, %v", average.State, err)
	}
}

// slowLists is a transport whose lists of blobs wait for the end of their context.
type slowLists struct{ next *http.Client }

func (s slowLists) Do(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("comp") == "list" {
		<-r.Context().Done()
		return nil, fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, r.Context().Err())
	}
	return s.next.Do(r)
}

// A janitor that is in the middle of a long pass does not delay the reconciler.
func TestJanitorDoesNotDelayTheReconciler(t *testing.T) {
	t.Parallel()
	b := setup(t)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	slow := azuritetest.AccountWith(t, func(cfg *azstore.Config) {
		cfg.Prefix, cfg.Transport = b.account.Prefix(), slowLists{&http.Client{Transport: transport}}
	})
	j := b.janitor()
	j.Blobs = blobstore.New(slow)
	var passes atomic.Int32
	l := &upkeep.Leader{Blobs: b.blobs, Log: slog.New(slog.DiscardHandler), Duties: []upkeep.Duty{
		{Name: "janitor", Every: time.Hour, Do: j.Pass},
		{Name: "reconcile", Every: 50 * time.Millisecond, Do: b.rec.Pass},
	}, Passed: func(duty string, _ int, _ bool, _ time.Duration) {
		if duty == "janitor" {
			passes.Add(1)
		}
	}}
	ctx, stop := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() { defer close(gone); l.Run(ctx) }()
	defer func() { stop(); <-gone }()
	azuritetest.Eventually(t, 10*time.Second, func() error {
		if !l.Leading() {
			return errors.New("there is no leader")
		}
		return nil
	})
	id := b.create(t)
	b.queues.shut.Store(true)
	if _, err := b.sums.Uploaded(t.Context(), id, epoch, "etag"); !errors.Is(err, errShut) {
		t.Fatal(err)
	}
	b.queues.shut.Store(false)
	azuritetest.Eventually(t, 10*time.Second, func() error {
		if got := b.waiting(t, enginetest.Split); len(got) != 1 {
			return fmt.Errorf("queue: %v", got)
		}
		return nil
	})
	if n := passes.Load(); n != 0 {
		t.Errorf("the janitor was not in the middle of a pass, but had ended %d", n)
	}
}

// Whatever a declared step committed stays, with no grace at all, and what another
// attempt of it wrote goes.
func TestJanitorKeepsWhatEveryStepCommitted(t *testing.T) {
	t.Parallel()
	for _, step := range declared.Steps {
		if !step.HasRows() || step.Stage == engine.OnRequest {
			continue
		}
		t.Run(step.Name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.ready(t)
			k := engine.Key{ID: id, Generation: 1, Step: step.Name, Index: 7}
			if _, err := b.sums.Change(t.Context(), id, "", func(v *enginetest.Sum) ([]engine.OutboxMessage, error) {
				if !step.IsOptional() {
					v.State = engine.Processing
				}
				return nil, nil
			}); err != nil {
				t.Fatal(err)
			}
			c, err := b.sums.Claim(t.Context(), k, "m", "w", time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			kept := []string{engine.MediaContainer + ": " + b.put(t, engine.MediaContainer, k.BlobPrefix(c.Run.Attempt)+"x")}
			b.put(t, engine.MediaContainer, k.BlobPrefix("another")+"x")
			for _, when := range []string{"while it runs", "when it is committed"} {
				if _, err := b.janitor().Pass(t.Context()); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(kept, b.blobsLeft(t)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", when, diff)
				}
				if when == "while it runs" {
					if err := c.Commit(t.Context(), enginetest.Commit{}); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// TestJanitorKeepsParts: the parts of an upload stay, whether it is complete or not, and
// parts of an epoch that was given up go.
func TestJanitorKeepsParts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, bare := b.create(t), b.create(t)
	l := sourceparts.Layout{Bytes: 2, PartBytes: 1, Epoch: "new"}
	if _, err := b.sums.Change(t.Context(), id, "", func(v *enginetest.Sum) ([]engine.OutboxMessage, error) {
		v.Upload = &engine.Upload{Bytes: l.Bytes, PartBytes: l.PartBytes, Epoch: l.Epoch}
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		b.put(t, engine.SourcesContainer, sourceparts.Name(id, l, 0)),
		b.put(t, engine.SourcesContainer, sourceparts.Name(id, l, 1)),
		b.put(t, engine.SourcesContainer, sourceparts.ManifestName(id, l.Epoch)),
	}
	b.put(t, engine.SourcesContainer, sourceparts.Name(id, sourceparts.Layout{Epoch: "old"}, 0))
	b.put(t, engine.SourcesContainer, sourceparts.Name(bare, l, 0))
	if _, err := b.janitor().Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, name := range want {
		want[i] = engine.SourcesContainer + ": " + name
	}
	if diff := cmp.Diff(want, b.blobsLeft(t)); diff != "" {
		t.Errorf("blobs left (-want +got):\n%s", diff)
	}
}

// Keys of an upload write whatever their holder likes, as long as they live. What no row
// names goes: parts of a wrong length and of uploads that were given up, while the upload
// is waited for and when it is complete, and anything of a sum that was purged.
func TestWhatKeysWroteIsRemoved(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, j := b.create(t), b.janitor()
	now, old := sourceparts.Layout{Bytes: 5, PartBytes: 2, Epoch: "now"}, sourceparts.Layout{Bytes: 5, PartBytes: 2, Epoch: "old"}
	put := func(l sourceparts.Layout, n int, content string) string {
		name := sourceparts.Name(id, l, n)
		if _, err := b.blobs.Put(t.Context(), engine.SourcesContainer, name, []byte(content), blobstore.Options{}); err != nil {
			t.Fatal(err)
		}
		return engine.SourcesContainer + ": " + name
	}
	left := func(why string, want ...string) {
		t.Helper()
		if _, err := j.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, b.blobsLeft(t)); diff != "" {
			t.Errorf("%s: blobs left (-want +got):\n%s", why, diff)
		}
	}
	change := func(by func(v *enginetest.Sum)) {
		t.Helper()
		if _, err := b.sums.Change(t.Context(), id, "", func(v *enginetest.Sum) ([]engine.OutboxMessage, error) { by(v); return nil, nil }); err != nil {
			t.Fatal(err)
		}
	}
	change(func(v *enginetest.Sum) {
		v.Upload, v.GivenUp = &engine.Upload{Bytes: now.Bytes, PartBytes: now.PartBytes, Epoch: now.Epoch}, 1
	})
	whole := put(now, 0, "ab")
	put(now, 1, "far more than two bytes")
	put(old, 0, "ab")
	left("while it is waited for", whole)

	rest := []string{whole, put(now, 1, "cd"), put(now, 2, "e")}
	j.Grace = time.Hour
	if _, err := b.sums.Uploaded(t.Context(), id, now.Epoch, "etag"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.sums.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	late := put(old, 1, "cd")
	left("complete, and keys still write", append(slices.Clone(rest), late)...)
	j.Grace = 0
	left("complete, and keys have ended", rest...)

	if _, err := b.sums.Delete(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := b.sums.Erase(t.Context(), id, true); err != nil {
		t.Fatal(err)
	}
	left("purged")
}
