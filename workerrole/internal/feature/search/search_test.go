package search_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
	"github.com/cutroom/cutroom/shared/provision"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/workerrole/internal/feature/search"
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
	"github.com/cutroom/cutroom/workerrole/internal/step"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

// worker has the two steps that keep the indexes, as a worker role has them.
type worker struct {
	videos  *videostore.Store
	catalog *catalog.Catalog
	search  *searchindex.Index
	steps   map[string]*pipeline.Runner
}

func newWorker(a *azstore.Account, box *enginetest.Mailbox) worker {
	needs := step.Needs{Videos: videostore.New(a, box), Blobs: blobstore.New(a), Catalog: catalog.New(a)}
	w := worker{needs.Videos, needs.Catalog, searchindex.New(a), map[string]*pipeline.Runner{}}
	for name, s := range step.All(needs, []step.Feature{search.New(a)}) {
		w.steps[name] = pipeline.New(pipeline.Runner{Blobs: needs.Blobs, Log: slog.Default()}, needs.Videos, pipeline.Hooks{}, s)
	}
	return w
}

func (w worker) handle(ctx context.Context, item azq.Item) error {
	return w.steps[item.Kind].Handle(ctx, &azq.RawJob{Item: item, Delivery: azq.Delivery{DequeueCount: 1}})
}

// history is one run of the test.
type history struct {
	*testing.T
	rand    *rand.Rand
	account *azstore.Account
	box     *enginetest.Mailbox
	worker  worker
	dying   worker
	die     *atomic.Int64 // requests until the dying worker breaks
	ids     []engine.ID
	crashes int
}

// Random operations as users and storage make them: videos are created, edited,
// hidden and deleted; index and purge messages come late, in another order, more
// than once, and to several workers at once, which die between any two requests.
// Whenever all messages are worked off, search, channel pages and recents answer
// exactly as a model that knows the truth; in the end the rows are those of an
// index that was made at one go, and when all videos are deleted nothing is left
// (paper row T8).
func TestIndexesFollowRandomHistories(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			h := newHistory(t, seed)
			for range 2 {
				for range 12 {
					h.operate()
					if h.rand.IntN(2) == 0 {
						h.deliver()
					}
				}
				h.drain(false)
				h.compareAnswers()
			}
			if h.crashes == 0 {
				t.Error("no worker ever died")
			}
			h.drain(true)
			h.compareRows()
			for _, id := range h.ids {
				if _, err := h.worker.videos.Delete(t.Context(), id, ""); err != nil && !errors.Is(err, engine.ErrNotFound) {
					t.Fatal(err)
				}
			}
			h.drain(true)
			if rows := rowsOf(t, h.account); len(rows) != 0 {
				t.Errorf("%d rows are left: %v", len(rows), rows)
			}
		})
	}
}

// A worker died while it wrote the catalogue. The video is hidden before its
// note expires: the catalogue has to wait, search does not wait for it.
func TestAVideoIsHiddenThoughAnIndexIsBusy(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	h := newHistory(t, 0)
	videos := h.worker.videos
	v := video.Video{
		Meta:  engine.Meta{ID: engine.NewID(), Channel: "c", State: engine.Ready, Priority: engine.Normal, CreatedAt: started},
		Title: "harbour", Visibility: video.Public,
	}
	if _, err := videos.Create(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	change := func(edit func(*video.Video)) azq.Item {
		_, err := videos.Change(t.Context(), v.ID, "", func(v *video.Video) ([]engine.OutboxMessage, error) {
			edit(v)
			return []engine.OutboxMessage{workflow.Declaration.FollowMessage()}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return h.box.Items[len(h.box.Items)-1]
	}
	if err := h.worker.handle(t.Context(), change(func(*video.Video) {})); err != nil {
		t.Fatal(err)
	}
	h.die.Store(6) // back-reference, truth, month, note, truth and one partition; not the report
	if err := h.dying.handle(t.Context(), change(func(v *video.Video) { v.Title = "old harbour" })); err == nil {
		t.Fatal("no worker died")
	}
	err := h.worker.handle(t.Context(), change(func(v *video.Video) { v.Visibility = video.Private }))
	if fate, _ := azq.FateOf(err); fate != azq.FateSnoozed {
		t.Fatalf("next to a run that may live: %v, want a snooze", err)
	}
	found, err := h.worker.search.Search(t.Context(), searchindex.Query{Q: "harbour"}, 5, "")
	if err != nil || len(found.Hits) > 0 {
		t.Errorf("a hidden video is found: %v, %v", found.Hits, err)
	}
}

func newHistory(t *testing.T, seed uint64) *history {
	t.Helper()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Containers: provision.Containers, Tables: slices.Concat(provision.Tables, searchindex.Tables)}); err != nil {
		t.Fatal(err)
	}
	h := &history{T: t, rand: rand.New(rand.NewPCG(seed, 3)), account: a, box: &enginetest.Mailbox{}, die: &atomic.Int64{}}
	h.worker = newWorker(a, h.box)
	h.dying = newWorker(azuritetest.FaultyAccount(t, a, func(*http.Request) inject.Fault {
		if h.die.Add(-1) < 0 {
			return []inject.Fault{inject.Reset, inject.LostReply}[seed%2]
		}
		return inject.None
	}), h.box)
	return h
}

// Words of which none but those in other are forms of each other, begin alike,
// or are one typo apart.
var (
	words    = []string{"harbour", "harbours", "night", "Café", "корабль", "корабли", "東京", "zebra"}
	channels = []string{"Sea & Ships", "O'Brien"}
	other    = map[string]string{"harbours": "harbour", "корабли": "корабль", "Café": "cafe"}
)

func (h *history) text(most int) string {
	var picked []string
	for range h.rand.IntN(most + 1) {
		picked = append(picked, words[h.rand.IntN(len(words))])
	}
	return strings.Join(picked, " ")
}

var started = time.Date(2026, 3, 31, 23, 59, 59, 990e6, time.UTC) // so that some are of the next month

// operate does what one user does. The promised message goes to the mailbox.
func (h *history) operate() {
	h.Helper()
	edit := func(v *video.Video) ([]engine.OutboxMessage, error) {
		if v.State == engine.Deleting {
			return nil, engine.ErrUnchanged
		}
		switch h.rand.IntN(6) {
		case 0:
			v.Title = h.text(3)
		case 1:
			v.Tags = []string{h.text(1), h.text(2)}
		case 2:
			v.Actors, v.Directors = []string{h.text(2)}, []string{h.text(1)}
		case 3:
			v.Channel = channels[h.rand.IntN(len(channels))]
		case 4:
			v.Visibility = []video.Visibility{video.Public, video.Public, video.Unlisted, video.Private}[h.rand.IntN(4)]
		case 5:
			v.Description = h.text(4)
			v.State = []engine.State{engine.Ready, engine.Ready, engine.Processing}[h.rand.IntN(3)]
		}
		return []engine.OutboxMessage{workflow.Declaration.FollowMessage()}, nil
	}
	ctx, videos := h.Context(), h.worker.videos
	if len(h.ids) < 3 || h.rand.IntN(6) == 0 {
		v := video.Video{
			Meta: engine.Meta{
				ID: engine.NewID(), Channel: channels[h.rand.IntN(len(channels))], State: engine.Ready,
				Priority: engine.Normal, CreatedAt: started.Add(time.Duration(len(h.ids)) * time.Millisecond),
			},
			Title: h.text(3), Visibility: video.Public, Tags: []string{h.text(1)}, Description: h.text(3),
		}
		if _, err := videos.Create(ctx, v); err != nil {
			h.Fatal(err)
		}
		h.ids = append(h.ids, v.ID)
		if _, err := videos.Change(ctx, v.ID, "", edit); err != nil {
			h.Fatal(err)
		}
		return
	}
	id := h.ids[h.rand.IntN(len(h.ids))]
	var err error
	if h.rand.IntN(8) == 0 {
		_, err = videos.Delete(ctx, id, "")
	} else {
		_, err = videos.Change(ctx, id, "", edit)
	}
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		h.Fatal(err)
	}
}

// deliver hands one message, whichever, to up to three workers at once, of which
// one dies. It stays in the queue, as if all of them were too slow, but when one
// worker had it for itself and did it.
func (h *history) deliver() {
	h.Helper()
	if len(h.box.Items) == 0 {
		return
	}
	n := h.rand.IntN(len(h.box.Items))
	item := h.box.Items[n]
	h.die.Store(int64(h.rand.IntN(90)))
	ctx, cancel := context.WithCancel(h.Context())
	defer cancel()
	kind := h.rand.IntN(5)
	if kind == 0 { // drained in the middle
		time.AfterFunc(time.Duration(h.rand.IntN(150))*time.Millisecond, cancel)
	}
	var wait sync.WaitGroup
	var failed [3]error
	for i, w := range [][]worker{{h.worker}, {h.worker}, {h.dying}, {h.worker, h.dying}, {h.worker, h.worker, h.dying}}[kind] {
		wait.Go(func() { failed[i] = w.handle(ctx, item) })
	}
	wait.Wait()
	switch {
	case kind == 1 && failed[0] == nil:
		h.box.Items = slices.Delete(h.box.Items, n, n+1)
	case kind == 1:
		if fate, _ := azq.FateOf(failed[0]); fate != azq.FateSnoozed {
			h.Errorf("a worker without faults failed: %v", failed[0])
		}
	case kind != 4 && failed[0] != nil || failed[2] != nil:
		h.crashes++
	}
}

// drain works off all messages with workers that live. Some videos that are not
// to be found any more have to wait until the notes of the dead have expired:
// patient waits for them, else they stay in the queue.
func (h *history) drain(patient bool) {
	h.Helper()
	done := func() bool {
		var snoozed []azq.Item
		items := h.box.Items
		h.box.Items = nil
		for _, item := range items {
			err := h.worker.handle(h.Context(), item)
			if fate, _ := azq.FateOf(err); fate == azq.FateSnoozed {
				item.Snoozes++
				snoozed = append(snoozed, item)
			} else if err != nil {
				h.Fatalf("%s of %s: %v", item.Kind, item.Subject, err)
			}
		}
		h.box.Items = append(h.box.Items, snoozed...)
		return len(h.box.Items) == 0 || !patient
	}
	if !azuritetest.Poll(2*time.Minute, done) {
		h.Fatalf("%d messages are never done", len(h.box.Items))
	}
}

// truth reads the videos that there are.
func (h *history) truth() (all []video.Video) {
	h.Helper()
	for _, id := range h.ids {
		rec, err := h.worker.videos.Get(h.Context(), id)
		if err == nil && rec.Subject.State != engine.Deleting && rec.Subject.Visibility == video.Public {
			all = append(all, rec.Subject)
		} else if err != nil && !errors.Is(err, engine.ErrNotFound) {
			h.Fatal(err)
		}
	}
	slices.SortFunc(all, func(a, b video.Video) int { return b.CreatedAt.Compare(a.CreatedAt) }) // newest first
	return all
}

// texts are the values of a field; of q, all.
func texts(v video.Video, field string) []string {
	switch field {
	case "title":
		return []string{v.Title}
	case "description":
		return []string{v.Description}
	case "actor":
		return v.Actors
	case "director":
		return v.Directors
	case "tag":
		return v.Tags
	case "channel":
		return []string{v.Channel}
	}
	var all []string
	for _, f := range fields[1:] {
		all = append(all, texts(v, f)...)
	}
	return all
}

var fields = []string{"q", "title", "description", "actor", "director", "tag", "channel"}

func query(field, text string) (q searchindex.Query) {
	*map[string]*string{
		"q": &q.Q, "title": &q.Title, "description": &q.Description, "actor": &q.Actor,
		"director": &q.Director, "tag": &q.Tag, "channel": &q.Channel,
	}[field] = text
	return q
}

func form(word string) string { return strings.ToLower(cmp.Or(other[word], word)) }

// compareAnswers asks everything that can be asked.
func (h *history) compareAnswers() {
	h.Helper()
	truth := h.truth()
	find := func(field, text string, matches func(value string) bool) {
		h.Helper()
		var want, got []engine.ID
		for _, v := range truth {
			if v.State == engine.Ready && slices.ContainsFunc(texts(v, field), matches) {
				want = append(want, v.ID)
			}
		}
		for token, more := "", true; more; more = token != "" {
			found, err := h.worker.search.Search(h.Context(), query(field, text), 2, token)
			if err != nil {
				h.Fatal(err)
			}
			got = append(got, found.Hits...)
			token = found.Next
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			h.Errorf("%s:%s (-want +got):\n%s", field, text, diff)
		}
	}
	for _, field := range fields {
		for _, word := range words {
			find(field, word, func(value string) bool {
				return slices.ContainsFunc(strings.Fields(value), func(w string) bool { return form(w) == form(word) })
			})
		}
		find(field, "harb", func(value string) bool { return strings.Contains(value, "harb") })
		find(field, "кораб", func(value string) bool { return strings.Contains(value, "кораб") })
		find(field, `"night harbours"`, func(value string) bool { return strings.Contains(value+" ", "night harbours ") })
	}
	find("channel", "obrien", func(value string) bool { return value == "O'Brien" })

	ids := func(videos []video.Video) (list []engine.ID) {
		for _, v := range videos {
			list = append(list, v.ID)
		}
		return list
	}
	pages := func(name string, want []video.Video, page func(token string) ([]engine.ID, string, error)) {
		h.Helper()
		var got []engine.ID
		for token, more := "", true; more; more = token != "" {
			list, next, err := page(token)
			if err != nil {
				h.Fatal(err)
			}
			got = append(got, list...)
			token = next
		}
		if diff := gocmp.Diff(ids(want), got); diff != "" {
			h.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	lists := h.worker.catalog
	pages("recent", truth, func(token string) ([]engine.ID, string, error) { return lists.Recent(h.Context(), 3, token) })
	for _, channel := range channels {
		mine := slices.DeleteFunc(slices.Clone(truth), func(v video.Video) bool { return v.Channel != channel })
		pages(channel+", newest", mine, func(token string) ([]engine.ID, string, error) {
			return lists.Channel(h.Context(), channel, catalog.Newest, 2, token)
		})
		slices.SortFunc(mine, func(a, b video.Video) int {
			title := func(v video.Video) string { return strings.ReplaceAll(strings.ToLower(v.Title), "é", "e") }
			return cmp.Or(cmp.Compare(title(a), title(b)), cmp.Compare(a.ID, b.ID))
		})
		pages(channel+", by title", mine, func(token string) ([]engine.ID, string, error) {
			return lists.Channel(h.Context(), channel, catalog.ByTitle, 2, token)
		})
	}
}

// compareRows builds the indexes of the truth in a fresh account.
func (h *history) compareRows() {
	h.Helper()
	fresh := azuritetest.Account(h.T)
	if err := fresh.Ensure(h.Context(), azstore.Names{Tables: slices.Concat(provision.Tables, searchindex.Tables)}); err != nil {
		h.Fatal(err)
	}
	var videos []video.Video
	for _, id := range h.ids {
		if rec, err := h.worker.videos.Get(h.Context(), id); err == nil {
			videos = append(videos, rec.Subject)
		}
	}
	_, err := catalog.New(fresh).Load(h.Context(), videos)
	if err := errors.Join(err, searchindex.New(fresh).Load(h.Context(), videos)); err != nil {
		h.Fatal(err)
	}
	if diff := gocmp.Diff(rowsOf(h.T, fresh), rowsOf(h.T, h.account)); diff != "" {
		h.Errorf("rows (-made at one go +after the history):\n%s", diff)
	}
}

// rowsOf reads every row of the indexes by its keys. Left out is what back-references say
// of runs.
func rowsOf(t *testing.T, a *azstore.Account) map[string]map[string]any {
	t.Helper()
	rows := map[string]map[string]any{}
	for _, name := range append([]string{catalog.CatalogTable, catalog.RecentTable}, searchindex.Tables...) {
		for row, err := range tablestore.New(a, name).Query(t.Context(), tablestore.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			if row.RowKey == "REF" || row.RowKey == "TERMS" {
				row.Props = nil
			}
			rows[name+" "+row.PartitionKey+" "+row.RowKey] = row.Props
		}
	}
	return rows
}
