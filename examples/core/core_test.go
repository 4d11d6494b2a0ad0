package core_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cutroom/cutroom/examples/core"
	"github.com/cutroom/cutroom/examples/core/coretest"
	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqops"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
	"github.com/cutroom/cutroom/shared/engine/workers"
)

// none: nothing is planned.
type none struct{}

// words is a product that counts words, in a step between those that the core adds.
var words = countingWith(count)

func countingWith(run func(context.Context, *core.Work[none]) (core.Commit[none], error)) core.Product[none] {
	return core.Product[none]{
		Name: "words", Table: "texts",
		Steps: []core.Step[none]{
			{Step: engine.Step{Name: "count", Stage: engine.Part, Queues: []string{"light"}, Weight: 100}, Run: run},
		},
		Queues: []azq.Spec{{Name: "light", Visibility: 5 * time.Second, MaxFailures: 1}},
		Accept: func(d core.Document) error {
			if d.Name == "refused" {
				return errors.New("not this one")
			}
			return nil
		},
	}
}

func count(ctx context.Context, w *core.Work[none]) (core.Commit[none], error) {
	var text strings.Builder
	if err := core.CopyUpload(ctx, w, &text, 1); err != nil {
		return core.Commit[none]{}, err
	}
	file, err := w.PutData(ctx, "upper.txt", []byte(strings.ToUpper(text.String())), "text/plain")
	return core.Commit[none]{Files: []engine.File{file}, Facts: map[string]int{"words": len(strings.Fields(text.String()))}}, err
}

func TestMain(m *testing.M) { coretest.Main(m, words) }

func TestDeclaration(t *testing.T) {
	t.Parallel()
	d := core.Open(azuritetest.Account(t), words).Declaration()
	if err := enginetest.Check(d); err != nil {
		t.Error(err)
	}
	var names []string
	for _, step := range d.Steps {
		names = append(names, step.Name)
	}
	if got := fmt.Sprint(names, d.Queues[0].Kinds); got != "[begin count finish index purge] [begin count finish index purge]" {
		t.Error(got)
	}
}

func TestAnUploadIsWorkedOnListedServedAndDeleted(t *testing.T) {
	azuritetest.Slow(t, "starts the program")
	t.Parallel()
	s := coretest.Start(t, azuritetest.Account(t), words)
	first := s.Ended(s.Upload("greeting", []byte("hello you two")).ID)
	if first.State != engine.Ready || string(first.Facts["count"]) != `{"words":3}` || first.Bytes != 13 {
		t.Errorf("%+v", first)
	}
	at := "/" + string(first.ID)
	if got := s.Want(200, "GET", at+"/upper.txt", nil); string(got) != "HELLO YOU TWO" {
		t.Errorf("served is %s", got)
	}
	second := s.Ended(s.Upload("farewell", []byte("bye")).ID)
	s.Listed(second, first)
	s.Want(404, "GET", at+"/lower.txt", nil)
	s.Want(404, "GET", "/nothing", nil)
	s.Want(409, "POST", at+"/cancel", nil)
	s.Want(409, "POST", at+"/retry", nil)
	s.Want(200, "POST", at+"/reprocess", nil)
	if again := s.Ended(first.ID); again.State != engine.Ready || string(again.Facts["count"]) != `{"words":3}` {
		t.Errorf("once more: %+v", again)
	}
	s.Delete(first.ID, second.ID)
}

// What cannot be taken leaves nothing.
func TestBadRequests(t *testing.T) {
	azuritetest.Slow(t, "starts the program")
	t.Parallel()
	s := coretest.Start(t, azuritetest.Account(t), words)
	s.Want(400, "POST", "", nil)
	s.Want(400, "POST", "?name=refused", []byte("x"))
	s.Want(400, "GET", "?pageToken=forged", nil)
	s.Want(404, "POST", "/ops/poison/light~7/redrive", nil)
	for name, change := range map[string]func(*http.Request){
		"of an unknown length": func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("x")), -1 },
		"of another origin":    func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
	} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		change(r)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode/100 != 4 {
			t.Errorf("%s: %d", name, answer.StatusCode)
		}
	}
	if left := s.Left(); len(left) > 0 {
		t.Errorf("left: %s", strings.Join(left, "\n"))
	}
}

// A client that goes away in the middle leaves nothing.
func TestABrokenUploadIsRemoved(t *testing.T) {
	azuritetest.Slow(t, "starts the program")
	t.Parallel()
	s := coretest.Start(t, azuritetest.Account(t), words)
	broken := io.MultiReader(bytes.NewReader(make([]byte, 5<<20)), failing{}) // one part, and some of the next
	r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL, broken)
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = 9 << 20
	if answer, err := http.DefaultClient.Do(r); err == nil {
		_ = answer.Body.Close()
		t.Fatalf("answered with %d", answer.StatusCode)
	}
	s.Delete()
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the line is cut") }

func TestListHasPages(t *testing.T) {
	azuritetest.Slow(t, "starts the program")
	t.Parallel()
	s := coretest.StartRoles(t, azuritetest.Account(t), words, true, false)
	azuritetest.Eventually(t, 20*time.Second, func() error {
		if status, answer := s.Ask("GET", "", nil); status != 200 {
			return fmt.Errorf("%s", answer)
		}
		return nil
	})
	list, want := tablestore.New(s.Account, "list"), map[engine.ID]bool{}
	for range 60 {
		l := core.Listed{ID: engine.NewID(), Name: "a", State: engine.Ready, CreatedAt: engine.Now()}
		key := tablestore.Join(tablestore.InvertedTime(l.CreatedAt), string(l.ID))
		if _, err := list.Upsert(t.Context(), tablestore.Entity{PartitionKey: "all", RowKey: key, Props: tablestore.Props(l)}); err != nil {
			t.Fatal(err)
		}
		want[l.ID] = true
	}
	pages, token := 0, ""
	for more := true; more; more = token != "" {
		page := coretest.Decode[coretest.Page](s.Client, "GET", "?pageToken="+token, nil)
		for _, l := range page.Items {
			if !want[l.ID] {
				t.Errorf("%s is listed twice", l.ID)
			}
			delete(want, l.ID)
		}
		pages, token = pages+1, page.NextPageToken
	}
	if len(want) > 0 || pages < 2 {
		t.Errorf("%d pages, %d missing", pages, len(want))
	}
}

// The roles run as processes of their own, too, and operators see the workers.
func TestRolesRunApart(t *testing.T) {
	azuritetest.Slow(t, "starts the program")
	t.Parallel()
	account := azuritetest.Account(t)
	web := coretest.StartRoles(t, account, words, true, false)
	now := web.UploadSoon("text", []byte("hello"))
	seen := func() int {
		return len(coretest.Decode[struct{ Items []workers.Worker }](web.Client, "GET", "/ops/workers", nil).Items)
	}
	if n := seen(); n != 0 {
		t.Errorf("%d workers before there is one", n)
	}
	if got := coretest.Decode[core.Shown](web.Client, "GET", "/"+string(now.ID), nil); got.State != engine.Uploaded {
		t.Errorf("without a worker it is %s", got.State)
	}
	queued := coretest.Decode[struct{ Items []azqops.Queue }](web.Client, "GET", "/ops/queues", nil).Items
	if len(queued) == 0 || queued[0].Name != "light" || queued[0].Length == 0 {
		t.Errorf("queues: %+v", queued)
	}
	coretest.StartRoles(t, account, words, false, true)
	if got := web.Ended(now.ID); got.State != engine.Ready {
		t.Errorf("%+v", got)
	}
	azuritetest.Eventually(t, 20*time.Second, func() error {
		if n := seen(); n != 1 {
			return fmt.Errorf("%d workers", n)
		}
		return nil
	})
}

// What fails at each attempt is poison. Operators send it again, which takes up the subject, or
// discard it.
func TestPoisonIsRedrivenAndDiscarded(t *testing.T) {
	azuritetest.Slow(t, "starts the program")
	t.Parallel()
	var works atomic.Bool
	s := coretest.Start(t, azuritetest.Account(t), countingWith(func(ctx context.Context, w *core.Work[none]) (core.Commit[none], error) {
		if !works.Load() {
			return core.Commit[none]{}, errors.New("no good day")
		}
		return count(ctx, w)
	}))
	// all does something with all poison until there is none: a message that is sent twice is so twice.
	all := func(method, action string) {
		t.Helper()
		done := 0
		azuritetest.Eventually(t, 20*time.Second, func() error {
			found := coretest.Decode[struct{ Items []azq.Poisoned }](s.Client, "GET", "/ops/poison", nil).Items
			for _, p := range found {
				s.Want(204, method, "/ops/poison/"+p.ID+action, nil)
				done++
			}
			if len(found) > 0 || done == 0 {
				return fmt.Errorf("poison: %+v", found)
			}
			return nil
		})
	}
	now := s.Ended(s.Upload("text", []byte("hello")).ID)
	if now.State != engine.Failed || now.Error == nil || now.Error.Code != engine.ProcessingFailed {
		t.Errorf("%+v", now)
	}
	works.Store(true)
	all("POST", "/redrive")
	if got := s.Ended(now.ID); got.State != engine.Ready || string(got.Facts["count"]) != `{"words":1}` {
		t.Errorf("%+v", got)
	}

	works.Store(false)
	other := s.Ended(s.Upload("text", []byte("hello")).ID)
	all("DELETE", "")
	if got := s.Ended(other.ID); got.State != engine.Failed {
		t.Errorf("after its poison was discarded it is %s", got.State)
	}
	s.Delete(now.ID, other.ID)
}

// A process is killed between a commit and the messages that it promises. Another sends them,
// and runs no step again that is done.
func TestAKilledProcessIsReplaced(t *testing.T) {
	azuritetest.Slow(t, "waits for a lease to end")
	t.Parallel()
	account := azuritetest.Account(t)
	first := coretest.StartProcess(t, account, "count/committed")
	now := first.UploadSoon("text", []byte("hello you two"))
	first.Kill()
	s := coretest.Start(t, account, words)
	if now = s.Ended(now.ID); now.State != engine.Ready || string(now.Facts["count"]) != `{"words":3}` {
		t.Errorf("%+v", now)
	}
	view, err := s.Subjects.View(t.Context(), now.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range view.Runs {
		if run.Attempts != 1 {
			t.Errorf("%s was tried %d times", run.Key, run.Attempts)
		}
	}
	s.Delete(now.ID)
}

func TestSettings(t *testing.T) {
	t.Setenv("WORDS_PREFIX", "No!")
	if err := core.RunFromEnv(t.Context(), words); err == nil || !strings.Contains(err.Error(), "prefix") {
		t.Error(err)
	}
	t.Setenv("WORDS_PREFIX", "")
	t.Setenv("WORDS_ROLE", "leader")
	if err := core.RunFromEnv(t.Context(), words); err == nil || !strings.Contains(err.Error(), "WORDS_ROLE") {
		t.Error(err)
	}
}
