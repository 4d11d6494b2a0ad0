// Package rideout_test runs the whole application on a table service that is
// never at rest: package partitions, with ranges that split and move all the
// time (paper row T10).
package rideout_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/partitions"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azurite"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/workflow"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// ownEmulator starts Azurite for one test, which disturbs it.
func ownEmulator(t *testing.T) *azurite.Server {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: this test runs Azurite and the built roles")
	}
	emulator, err := azurite.Start(t.Context(), azurite.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := emulator.Stop(); err != nil {
			t.Error(err)
		}
	})
	return emulator
}

// The whole application on a service that splits and moves its ranges all the
// time and cuts its pages: upload, watch, search, edit, delete. No user sees an
// answer 5xx, nothing is lost, and search and lists end equal to the truth (T10).
func TestTheApplicationRidesOutPartitionMoves(t *testing.T) {
	emulator := ownEmulator(t)
	proxy, err := partitions.Start(emulator.ConnectionString(), partitions.Config{
		Seed: 42, Scale: 10, Churn: 400 * time.Millisecond, MoveTime: time.Second, EmptyPages: 0.25, ShortPages: 0.25,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	s := stacktest.Start(t, stack.Options{Workers: 2, ConnectionString: proxy.ConnectionString(), Env: []string{
		"WEBROLE_RATE_LIMIT=0", "CUTROOM_PURGE_LINGER=1s",
		"CUTROOM_RECONCILE_INTERVAL=3s", "CUTROOM_RECONCILE_GRACE=3s",
	}})
	account, err := azstore.Open(azstore.Config{ConnectionString: emulator.ConnectionString()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(account.CloseIdle)
	user, err := journey.New(s.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(user.Close)
	ctx, cancel := context.WithTimeout(t.Context(), azuritetest.Patience(4*time.Minute))
	defer cancel()

	look := lookers(ctx, user)
	clip := clip(t)
	const count = 8
	var ids [count]string
	var all sync.WaitGroup
	errs := make([]error, count)
	for n := range count {
		all.Go(func() { ids[n], errs[n] = live(ctx, user, n, clip) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("%v\n%+v", err, short(proxy.Stats()))
	}
	// What must be there: two in four were renamed, one in four is deleted.
	truth := map[string][]string{}
	for n, id := range ids {
		switch n % 4 {
		case 0:
			truth["unchanged"] = append(truth["unchanged"], id)
		case 1, 2:
			truth["renamed"] = append(truth["renamed"], id)
		case 3:
			truth["deleted"] = nil
		}
	}
	truth["partition"] = slices.Concat(truth["unchanged"], truth["renamed"])
	for word, want := range truth {
		slices.Sort(want)
		azuritetest.Eventually(t, 90*time.Second, func() error {
			got, err := found(ctx, user, word)
			if diff := cmp.Diff(want, got); err == nil && diff != "" {
				err = fmt.Errorf("search for %q (-want +got):\n%s", word, diff)
			}
			return err
		})
	}
	azuritetest.Eventually(t, 30*time.Second, func() error {
		got, err := listed(ctx, user)
		if diff := cmp.Diff(truth["partition"], got); err == nil && diff != "" {
			err = fmt.Errorf("the list of videos (-want +got):\n%s", diff)
		}
		return err
	})
	azuritetest.Eventually(t, 90*time.Second, func() error { return leftovers(ctx, account, ids[:]) })
	answers, bad, slowest := look()
	if len(bad) > 0 {
		t.Errorf("%d of %d answers that should not have been seen:\n%s", len(bad), answers, strings.Join(bad, "\n"))
	}
	stats := proxy.Stats()
	t.Logf("%d videos; %d looks, the slowest took %v; %s", count, answers, slowest.Round(time.Millisecond), short(stats))
	for _, p := range stats.Partitions[:5] { // T9: by the application itself, with all that it asks
		t.Logf("%d of %d entities were in %s %s", p.Entities, stats.Entities, p.Table, p.PartitionKey)
		if 4*p.Entities > stats.Entities && p.Table != "doorbells" { // which workers read by the clock
			t.Errorf("too coarse: a quarter of all was in %+v", p)
		}
	}
	if stats.Splits < 5 || stats.Moves < 20 || stats.Unavailable < 10 || stats.EmptyPages < 10 || stats.LostReplies == 0 {
		t.Error("too little happened to say anything")
	}
}

func short(s partitions.Stats) string {
	return fmt.Sprintf("%d requests, %d refused, %d met a moving range, %d replies lost, %d splits, %d moves, %d empty pages, %d short, %d ended with a range",
		s.Requests, s.Refused(), s.Unavailable, s.LostReplies, s.Splits, s.Moves, s.EmptyPages, s.ShortPages, s.RangeEnds)
}

// clip makes a source of 2 s.
func clip(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "clip.mp4")
	out, err := exec.CommandContext(t.Context(), "ffmpeg", "-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=64x64:r=10:d=2",
		"-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-movflags", "+faststart", path).CombinedOutput()
	if err != nil {
		t.Fatalf("make a clip: %v\n%s", err, out)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// live is the life of video n: uploaded, ready, found; then it is left alone,
// renamed, or deleted.
func live(ctx context.Context, user *journey.User, n int, clip []byte) (id string, err error) {
	v, err := user.Announce(ctx, client.NewVideo{Title: fmt.Sprintf("Partition unchanged deleted %d", n)})
	if err != nil {
		return "", err
	}
	if err := user.Put(ctx, v.Id, bytes.NewReader(clip), int64(len(clip))); err != nil {
		return v.Id, err
	}
	if _, err := user.AwaitReady(ctx, v.Id); err != nil {
		return v.Id, err
	}
	if _, err := user.AwaitFound(ctx, "unchanged", v.Id); err != nil {
		return v.Id, err
	}
	switch n % 4 {
	case 3:
		res, err := user.API().DeleteVideoWithResponse(ctx, v.Id, nil)
		if err != nil || res.StatusCode() != http.StatusAccepted {
			return v.Id, refused("delete", err, res)
		}
		return v.Id, nil
	default:
		title := "Partition unchanged"
		if n%4 != 0 {
			title = "Partition renamed"
		}
		for try := 1; ; try++ { // of a version, as an editor in a page does
			now, err := user.API().GetVideoWithResponse(ctx, v.Id)
			if err != nil || now.StatusCode() != http.StatusOK {
				return v.Id, refused("read for the edit", err, now)
			}
			etag := now.HTTPResponse.Header.Get("ETag")
			res, err := user.API().EditVideoWithResponse(ctx, v.Id, &client.EditVideoParams{IfMatch: &etag}, client.VideoEdit{Title: &title})
			if err != nil || res.StatusCode() != http.StatusOK && res.StatusCode() != http.StatusPreconditionFailed {
				return v.Id, refused("edit", err, res)
			}
			if res.StatusCode() == http.StatusOK {
				return v.Id, nil
			}
			if try == 5 {
				return v.Id, errors.New("edit: another writer was faster five times")
			}
		}
	}
}

// refused is for an answer that is not the one hoped for.
func refused(what string, err error, res interface {
	StatusCode() int
	GetBody() []byte
}) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %d %s", what, res.StatusCode(), res.GetBody())
}

// lookers are users who only look, until the returned function is called. It
// tells how many answers they had, those with 5xx, and the longest wait.
func lookers(ctx context.Context, user *journey.User) func() (answers int, bad []string, slowest time.Duration) {
	ctx, stop := context.WithCancel(ctx)
	var mu sync.Mutex
	var all sync.WaitGroup
	var answers int
	var bad []string
	var slowest time.Duration
	look := func(what string, ask func() (int, []byte, error)) {
		all.Go(func() {
			for ctx.Err() == nil {
				start := time.Now()
				status, text, err := ask()
				if ctx.Err() != nil {
					return
				}
				mu.Lock()
				answers++
				slowest = max(slowest, time.Since(start))
				if err != nil || status >= 500 {
					bad = append(bad, fmt.Sprintf("%s: %d %v %s", what, status, err, text))
				}
				mu.Unlock()
				select {
				case <-time.After(50 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		})
	}
	q := "partition"
	look("search", func() (int, []byte, error) {
		res, err := user.API().SearchVideosWithResponse(ctx, &client.SearchVideosParams{Q: &q})
		if err != nil {
			return 0, nil, err
		}
		return res.StatusCode(), res.Body, nil
	})
	look("list", func() (int, []byte, error) {
		res, err := user.API().ListVideosWithResponse(ctx, nil)
		if err != nil {
			return 0, nil, err
		}
		return res.StatusCode(), res.Body, nil
	})
	return func() (int, []string, time.Duration) {
		stop()
		all.Wait()
		return answers, bad, slowest
	}
}

// found are the ids that a search finds, on all its pages.
func found(ctx context.Context, user *journey.User, word string) (ids []string, err error) {
	limit := client.Limit(3)
	for token := (*client.PageToken)(nil); ; {
		res, err := user.API().SearchVideosWithResponse(ctx, &client.SearchVideosParams{Q: &word, Limit: &limit, PageToken: token})
		if err != nil || res.JSON200 == nil {
			return nil, refused("search for "+word, err, res)
		}
		for _, v := range res.JSON200.Items {
			ids = append(ids, v.Id)
		}
		if token = res.JSON200.NextPageToken; token == nil {
			slices.Sort(ids)
			return ids, nil
		}
	}
}

// listed are the ids of the newest videos, on all pages.
func listed(ctx context.Context, user *journey.User) (ids []string, err error) {
	limit := client.Limit(3)
	for token := (*client.PageToken)(nil); ; {
		res, err := user.API().ListVideosWithResponse(ctx, &client.ListVideosParams{Limit: &limit, PageToken: token})
		if err != nil || res.JSON200 == nil {
			return nil, refused("list", err, res)
		}
		for _, v := range res.JSON200.Items {
			ids = append(ids, v.Id)
		}
		if token = res.JSON200.NextPageToken; token == nil {
			slices.Sort(ids)
			return ids, nil
		}
	}
}

// leftovers looks at the tables and queues themselves, without the proxy: no
// row names a deleted video, no promise is open, no message waits.
func leftovers(ctx context.Context, account *azstore.Account, ids []string) error {
	var left []string
	for _, name := range append([]string{catalog.CatalogTable, catalog.RecentTable, workflow.VideosTable, engine.InflightTable}, searchindex.Tables...) {
		for row, err := range tablestore.New(account, name).Query(ctx, tablestore.Query{Class: tablestore.Scan}) {
			if err != nil {
				return err
			}
			if name == engine.InflightTable && row.Bool("Erased") {
				continue // the mark of a purge stays for a day
			}
			text := row.PartitionKey + "/" + row.RowKey
			for n, id := range ids {
				if n%4 == 3 && strings.Contains(text, id) {
					left = append(left, name+": "+text+" of a deleted video")
				}
			}
			if name == engine.InflightTable || strings.HasPrefix(row.RowKey, "OUT:") {
				left = append(left, name+": "+text)
			}
		}
	}
	for _, name := range azqtest.Names(azq.Options{Queues: workflow.Specs}) {
		properties, err := account.Queue(name).GetProperties(ctx, nil)
		if err != nil {
			return err
		}
		if n := *properties.ApproximateMessagesCount; n > 0 {
			left = append(left, fmt.Sprintf("%d messages in queue %s", n, name))
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("left behind:\n%s", strings.Join(left, "\n"))
	}
	return nil
}
