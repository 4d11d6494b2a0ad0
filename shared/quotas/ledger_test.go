package quotas_test

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

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
	"github.com/cutroom/cutroom/shared/quotas"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// ledgerOf reads what is counted for an owner, and compares the sums with the lines.
func ledgerOf(t *testing.T, a *azstore.Account, owner string) (sums tablestore.Entity) {
	t.Helper()
	table := tablestore.New(a, quotas.Table)
	var bytes, waiting, lines int64
	for row, err := range table.Query(t.Context(), tablestore.Query{PartitionKey: tablestore.EscapeKey(owner), Class: tablestore.RowRange}) {
		switch {
		case err != nil:
			t.Fatal(err)
		case row.RowKey == "SUMS":
			sums = row
		default:
			lines++
			bytes += row.Int64("Bytes")
			waiting += row.Int64("Waiting")
		}
	}
	if sums.Int64("Bytes") != bytes || sums.Int64("Waiting") != waiting || sums.Int64("Videos") != lines {
		t.Errorf("sums %v, but %d lines of %d bytes, %d waiting", sums.Props, lines, bytes, waiting)
	}
	return sums
}

func TestMain(m *testing.M) { azuritetest.Main(m) }

func opened(t *testing.T) *azstore.Account {
	t.Helper()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Tables: append([]string{quotas.Table}, videostore.Tables...)}); err != nil {
		t.Fatal(err)
	}
	return a
}

// open returns a store of videos, as a process has it, with its ledger.
func open(a *azstore.Account, limits quotas.Limits) (*videostore.Store, *quotas.Ledger) {
	s := videostore.New(a, &enginetest.Mailbox{})
	return s, quotas.Open(a, s, limits)
}

// epoch is that of the upload of every video of ownedBy.
const epoch = "e"

// ownedBy is a video of which some parts may be there.
func ownedBy(owner string, size int64) video.Video {
	return video.Video{Meta: engine.Meta{
		ID: engine.NewID(), Owner: owner, State: engine.AwaitingUpload, Priority: engine.Normal, SizeBytes: size,
		Upload: &engine.Upload{Bytes: 900, PartBytes: 1000, Epoch: epoch}, CreatedAt: time.Now().UTC().Truncate(time.Millisecond),
	}}
}

// refusedFor fails unless err says that a quota is used up.
func refusedFor(t *testing.T, err error, quota string, left int64) {
	t.Helper()
	var refusal *quotas.Error
	if !errors.As(err, &refusal) || refusal.Name != quota || refusal.Left != left {
		t.Fatalf("%v, want quota %s with %d left", err, quota, left)
	}
}

// However many processes announce at once, exactly as many get in as there is room for.
func TestQuotaIsExactAcrossProcesses(t *testing.T) {
	t.Parallel()
	a := opened(t)
	stores := make([]*videostore.Store, 3)
	for i := range stores {
		stores[i], _ = open(a, quotas.Limits{Owner: quotas.Quota{StoredBytes: 1000, Waiting: 7}})
	}
	var in, out atomic.Int64
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			_, err := stores[i%3].Create(t.Context(), ownedBy("ann", 100))
			var refusal *quotas.Error
			switch {
			case err == nil:
				in.Add(1)
			case errors.As(err, &refusal) && refusal.Name == quotas.Waiting:
				out.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if in.Load() != 7 || out.Load() != 17 {
		t.Errorf("%d in and %d out, want 7 and 17", in.Load(), out.Load())
	}
	ledgerOf(t, a, "ann")
	for range 3 { // other owners, and those without a quota, are not concerned
		if _, err := stores[0].Create(t.Context(), ownedBy("bob", 100)); err != nil {
			t.Error(err)
		}
	}
	for range 9 {
		if _, err := stores[0].Create(t.Context(), ownedBy(video.LocalOwner, 1<<40)); err != nil {
			t.Error(err)
		}
	}
	if got := ledgerOf(t, a, video.LocalOwner).Int64("Videos"); got != 9 {
		t.Errorf("%d videos are counted for the built-in owner, want 9", got)
	}
}

// What a video takes follows its life: announced, there, ready, deleted.
func TestQuotaFollowsTheVideo(t *testing.T) {
	t.Parallel()
	a := opened(t)
	s, ledger := open(a, quotas.Limits{Owner: quotas.Quota{StoredBytes: 1000, Waiting: 2, Minutes: 3}})
	v := ownedBy("ann", 0)
	if _, err := s.Create(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	count := func() {
		t.Helper()
		for range 2 { // repeating it changes nothing
			if err := ledger.CountOwned(t.Context(), v.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := func(bytes, waiting, seconds, videos int64) {
		t.Helper()
		count()
		got := ledgerOf(t, a, "ann")
		if got.Int64("Bytes") != bytes || got.Int64("Waiting") != waiting || got.Int64("Seconds") != seconds || got.Int64("Videos") != videos {
			t.Fatalf("%v, want %d bytes, %d waiting, %d seconds, %d videos", got.Props, bytes, waiting, seconds, videos)
		}
	}
	change := func(edit func(*video.Video)) {
		t.Helper()
		if _, err := s.Change(t.Context(), v.ID, "", func(v *video.Video) ([]engine.OutboxMessage, error) { edit(v); return nil, nil }); err != nil {
			t.Fatal(err)
		}
	}
	want(0, 1, 0, 1)
	begun := v
	begun.SizeBytes = 1001
	refusedFor(t, ledger.Reserve(t.Context(), begun), quotas.Stored, 1000)
	begun.SizeBytes = 900
	if err := ledger.Reserve(t.Context(), begun); err != nil {
		t.Fatal(err)
	}
	want(900, 1, 0, 1) // while it arrives
	_, err := s.Create(t.Context(), ownedBy("ann", 101))
	refusedFor(t, err, quotas.Stored, 100)
	if _, err := s.Uploaded(t.Context(), v.ID, epoch, "etag"); err != nil {
		t.Fatal(err)
	}
	want(900, 1, 0, 1)
	change(func(v *video.Video) { v.State, v.DurationSeconds = engine.Processing, 119.5 })
	want(900, 1, 120, 1)
	change(func(v *video.Video) { v.State = engine.Failed })
	want(900, 0, 120, 1)
	_, err = s.Reprocess(t.Context(), v.ID) // two more minutes of three
	refusedFor(t, err, quotas.Minutes, 1)
	want(900, 0, 120, 1)
	if _, err := s.Retry(t.Context(), v.ID); err != nil {
		t.Fatal(err)
	}
	if got := ledgerOf(t, a, "ann").Int64("Waiting"); got != 1 {
		t.Errorf("a retry takes no place: %d", got)
	}
	change(func(v *video.Video) { v.State, v.DurationSeconds, v.Generation = engine.Ready, 60, 2 })
	want(900, 0, 180, 1)
	_, err = s.Create(t.Context(), ownedBy("ann", 1))
	refusedFor(t, err, quotas.Minutes, 0)
	if _, err := s.Delete(t.Context(), v.ID, ""); err != nil {
		t.Fatal(err)
	}
	want(900, 0, 180, 1) // the blobs are still there
	if _, err := s.Erase(t.Context(), v.ID, true); err != nil {
		t.Fatal(err)
	}
	want(0, 0, 180, 0)
}

// A count that saw an older META does not stay: the one who wrote it looks again.
func TestLateCountDoesNotStay(t *testing.T) {
	t.Parallel()
	a := opened(t)
	s, ledger := open(a, quotas.Limits{})
	v := ownedBy("ann", 100)
	if _, err := s.Create(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	become := func(state engine.State) {
		if _, err := s.Change(t.Context(), v.ID, "", func(v *video.Video) ([]engine.OutboxMessage, error) { v.State = state; return nil, nil }); err != nil {
			t.Error(err)
		}
	}
	become(engine.Ready)
	// META changes just before the slow one writes, and a faster one has nothing to do.
	_, slow := open(azuritetest.FaultyAccount(t, a, func(r *http.Request) inject.Fault {
		if strings.HasSuffix(r.URL.Path, "/$batch") {
			become(engine.Processing)
			if err := ledger.CountOwned(context.WithoutCancel(t.Context()), v.ID); err != nil {
				t.Error(err)
			}
		}
		return inject.None
	}), quotas.Limits{})
	if err := slow.CountOwned(t.Context(), v.ID); err != nil {
		t.Fatal(err)
	}
	if got := ledgerOf(t, a, "ann").Int64("Waiting"); got != 1 {
		t.Errorf("%d waiting, but the video is being processed", got)
	}
}

// A process that dies between any two requests of an announcement or a purge leaves sums that
// are those of the lines, and what upkeep does makes them true.
func TestQuotaSurvivesDeath(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	var lived, purged bool
	faults := [2]inject.Fault{inject.Reset, inject.LostReply}
	for n := range 40 {
		a := opened(t)
		whole, ledger := open(a, quotas.Limits{})
		dying, _ := open(azuritetest.FaultyAccount(t, a, inject.DiesAt(n/2, faults[n%2])), quotas.Limits{})
		v := ownedBy("ann", 100)
		_, died := dying.Create(t.Context(), v)
		ledgerOf(t, a, "ann")
		if died == nil {
			lived = true
			break
		}
		if err := ledger.CountOwned(t.Context(), v.ID); err != nil {
			t.Fatal(err)
		}
		_, err := whole.Get(t.Context(), v.ID)
		if got := ledgerOf(t, a, "ann").Int64("Videos"); (got == 1) != (err == nil) {
			t.Errorf("died at request %d: %d videos are counted, the video: %v", n/2, got, err)
		}
	}
	for n := range 60 {
		a := opened(t)
		whole, _ := open(a, quotas.Limits{})
		v := ownedBy("ann", 100)
		if _, err := whole.Create(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		if _, err := whole.Delete(t.Context(), v.ID, ""); err != nil {
			t.Fatal(err)
		}
		dying, _ := open(azuritetest.FaultyAccount(t, a, inject.DiesAt(n/2, faults[n%2])), quotas.Limits{})
		_, died := dying.Erase(t.Context(), v.ID, true)
		if _, err := whole.Erase(t.Context(), v.ID, true); err != nil { // its message comes again
			t.Fatal(err)
		}
		if got := ledgerOf(t, a, "ann").Int64("Videos"); got != 0 {
			t.Errorf("the purge died at request %d: %d videos are counted", n/2, got)
		}
		if died == nil {
			purged = true
			break
		}
	}
	if !lived || !purged {
		t.Error("not every request was the last one once")
	}
}

// An owner's videos are listed newest first, whatever the owner is called.
func TestOwned(t *testing.T) {
	t.Parallel()
	a := opened(t)
	s, ledger := open(a, quotas.Limits{})
	long := "oidc:" + strings.Repeat("ü/", 200)
	for _, owner := range []string{"ann", "oidc:a/b#c?d", long, long + "x"} {
		var want []engine.ID
		for i := range 5 {
			v := ownedBy(owner, 1)
			v.CreatedAt = v.CreatedAt.AddDate(0, 0, i)
			if _, err := s.Create(t.Context(), v); err != nil {
				t.Fatal(err)
			}
			want = append(want, v.ID)
		}
		slices.Reverse(want)
		var got []engine.ID
		for token := ""; ; {
			ctx, meter := azstore.WithCounter(t.Context())
			page, next, err := ledger.Owned(ctx, owner, 2, token)
			if err != nil || len(page) > 2 || meter.Requests() > 2 || meter.ByClass(tablestore.Scan)+meter.ByClass(tablestore.PartitionRange) > 0 {
				t.Fatal(page, meter.Requests(), err)
			}
			got = append(got, page...)
			if token = next; token == "" {
				break
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", owner, got, want)
		}
	}
}

// A video whose META cannot be read can be deleted, and what can be read of it is enough
// for its owner to have room again.
func TestDeletingWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Tables: append([]string{tablestore.UnreadableTable, quotas.Table}, videostore.Tables...)}); err != nil {
		t.Fatal(err)
	}
	out := &enginetest.Mailbox{}
	s, rows := videostore.New(a, out), tablestore.New(a, workflow.VideosTable)
	ledger := quotas.Open(a, s, quotas.Limits{})
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
		if sent := out.Items; len(sent) != 1 || sent[0].Kind != workflow.StepPurge {
			t.Errorf("sent %v", sent)
		}
		out.Items = nil
		if _, err := s.Erase(t.Context(), id, true); err != nil {
			t.Fatal(err)
		}
		ids, _, err := ledger.Owned(t.Context(), owner, 10, "")
		if err != nil || len(ids) != left {
			t.Errorf("%s: its owner has %v, %v", doc, ids, err)
		}
	}
}
