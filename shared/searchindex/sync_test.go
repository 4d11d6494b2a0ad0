package searchindex

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/indexrows"
	"github.com/cutroom/cutroom/shared/video"
)

// later makes the notes of dead runs old.
func later() time.Time { return time.Now().Add(2 * indexrows.Expiry) }

func TestUnindexingLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v, other := newVideo("shared words and mine", 0), newVideo("shared words", 0)
	v.Actors, v.Tags, v.Description = []string{"Ann Other"}, []string{"tag"}, strings.Repeat("many different words ", 30)
	w.sync(t, v)
	w.sync(t, other)
	v.Title, v.Actors = "other words", []string{"Mine Own"} // "mine" moves from title to actor
	w.sync(t, v)
	if diff := cmp.Diff(w.model(t), w.dump(t)); diff != "" {
		t.Errorf("after an edit (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]engine.ID{v.ID}, w.pages(t, Query{Actor: "min"}, 5)); diff != "" {
		t.Errorf("moved to another field (-want +got):\n%s", diff)
	}
	v.Visibility = video.Private
	w.sync(t, v)
	if diff := cmp.Diff(w.model(t), w.dump(t)); diff != "" {
		t.Errorf("when private (-want +got):\n%s", diff)
	}
	w.Gone(other.ID)
	if err := w.Remove(t.Context(), other.ID); err != nil {
		t.Fatal(err)
	}
	if rows := w.dump(t); len(rows) != 0 {
		t.Errorf("rows are left: %v", rows)
	}
}

// The back-reference of a video with all the words it may have is larger than a
// property of a row may be.
func TestAVideoWithVeryManyWords(t *testing.T) {
	azuritetest.Slow(t, "makes thousands of requests")
	t.Parallel()
	w := newWorld(t)
	v := newVideo("film", 0)
	letters := []rune("abcdefghijklmnopqrstuvwxyzабвгдежзиклмнопрстуфхцчшщъыьэюяαβγδεζηθικλμνξοπρστυφχψω")
	many := func(first string, n int) (words []string) {
		for i := range n {
			word := []rune(fmt.Sprint(first, i))
			for len(word) <= maxTermRunes {
				word = append(word, letters[rand.IntN(len(letters))]) // so that the words cannot be compressed
			}
			words = append(words, string(word))
		}
		return words
	}
	v.Actors, v.Directors, v.Tags = many("a", 2*maxTerms), many("d", 2*maxTerms), many("t", 2*maxTerms)
	v.Description = strings.Join(many("w", 2*maxDescriptionTerms), " ")
	w.sync(t, v)
	row, err := w.postings.Get(t.Context(), videoKey(v.ID), referenceRow)
	if err != nil || len(row.Props) < 2 {
		t.Errorf("back-reference has %d properties, want several; %v", len(row.Props), err)
	}
	for _, q := range []Query{{Actor: "a7"}, {Tag: v.Tags[maxTerms-1]}, {Q: "film w99"}, {Q: "film a99"}} {
		if got := w.pages(t, q, 5); len(got) != 1 {
			t.Errorf("%+v finds %d videos", q, len(got))
		}
	}
	v.State = engine.Deleting
	w.sync(t, v)
	if rows := w.dump(t); len(rows) != 0 {
		t.Errorf("%d rows are left", len(rows))
	}
}

func TestReprocessingKeepsAVideoFindable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := newVideo("film", 0)
	v.State, v.Serving, v.Generation = engine.Processing, 1, 2
	w.sync(t, v)
	if got := w.pages(t, Query{Q: "film"}, 5); len(got) != 1 {
		t.Errorf("found %v", got)
	}
}

// A worker dies at every possible request of an edit; the repeated item must
// end with the rows of the model.
func TestCrashBetweenPartitions(t *testing.T) {
	azuritetest.Slow(t, "makes thousands of requests")
	t.Parallel()
	for _, fault := range []inject.Fault{inject.Reset, inject.LostReply} {
		w := newWorld(t)
		for at := 0; ; at++ {
			v := newVideo("alpha beta", 0)
			w.sync(t, v)
			v.Title, v.Tags = "beta gamma", []string{"delta"}
			w.Put(v)
			dying := w.faulty(t, inject.DiesAt(at, fault))
			failed := dying.Sync(t.Context(), v.ID, w.Current(v.ID)) != nil
			if at%2 == 1 { // it was changed back meanwhile
				v.Title, v.Tags = "alpha beta", nil
			}
			w.sync(t, v)
			w.Keeper.Now = later
			w.sync(t, v)
			if diff := cmp.Diff(w.model(t), w.dump(t)); diff != "" {
				t.Fatalf("fault %v at request %d (-want +got):\n%s", fault, at, diff)
			}
			w.Gone(v.ID)
			if err := w.Remove(t.Context(), v.ID); err != nil {
				t.Fatal(err)
			}
			if rows := w.dump(t); len(rows) != 0 {
				t.Fatalf("fault %v at request %d: rows are left: %v", fault, at, rows)
			}
			w.Keeper.Now = time.Now
			if !failed {
				if at < 20 {
					t.Errorf("only %d requests in a Sync", at)
				}
				break
			}
		}
	}
}

// Every search agrees with a search without an index. How the index follows
// random histories is tested where it is driven: workerrole/internal/step.
func TestSearchAgreesWithASearchWithoutAnIndex(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := rand.New(rand.NewPCG(seed, 2))
			words := []string{"red", "reddish", "the", "O'Brien", "東京", "京都", "fox", "foxes", "a_b", "é", "🎬", "run", "runs", "der", "лодка", "лодки"}
			text := func() string {
				var picked []string
				for range r.IntN(5) {
					picked = append(picked, words[r.IntN(len(words))])
				}
				return strings.Join(picked, " ")
			}
			for range 9 {
				v := newVideo(text(), time.Duration(r.IntN(5))*time.Minute)
				v.Description, v.Actors, v.Tags = text(), []string{text(), text()}, []string{text()}
				w.sync(t, v)
			}
			for range 60 {
				q := Query{Q: text()}
				switch r.IntN(6) {
				case 0:
					q.Title = text()
				case 1:
					q.Actor = words[r.IntN(len(words))]
				case 2:
					q.Description = text()
				case 3:
					q.Q = `"` + q.Q + `" ` + text()
				case 4:
					if runes := []rune(q.Q); len(runes) > 0 {
						q.Q = string(runes[:1+r.IntN(len(runes))])
					}
				}
				want := w.scan(t, q)
				if len(want) == 0 && len(w.pages(t, q, 1)) > 0 {
					if found, err := w.Search(t.Context(), q, 1, ""); err != nil || found.DidYouMean == nil {
						t.Errorf("%+v finds what does not match: %v", q, err)
					}
					continue
				}
				if diff := cmp.Diff(want, w.pages(t, q, 1+r.IntN(4))); diff != "" {
					t.Errorf("%+v (-want +got):\n%s", q, diff)
				}
				best := q
				best.Sort = Best
				got := w.pages(t, best, 1+r.IntN(4))
				slices.Sort(got)
				slices.Sort(want)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%+v (-want +got):\n%s", best, diff)
				}
			}
		})
	}
}

// Many workers index many videos with the same words.
func TestWorkersShareTerms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var wait sync.WaitGroup
	for i := range 8 {
		v := newVideo("same words in all of them", time.Duration(i)*time.Minute)
		w.Put(v)
		wait.Go(func() {
			if err := w.Sync(t.Context(), v.ID, w.Current(v.ID)); err != nil {
				t.Errorf("Sync: %v", err)
			}
			if i%2 == 0 {
				w.Gone(v.ID)
				if err := w.Remove(t.Context(), v.ID); err != nil {
					t.Errorf("Remove: %v", err)
				}
			}
		})
	}
	wait.Wait()
	if diff := cmp.Diff(w.model(t), w.dump(t)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// A worker has found a term's list empty and is about to delete the term's row.
// At that moment another indexes a video with the term.
func TestATermIsNotLostBetweenTwoWorkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	last, next := newVideo("unicorn", 0), newVideo("unicorn", time.Minute)
	w.sync(t, last)
	var once sync.Once
	slow := w.faulty(t, func(r *http.Request) inject.Fault {
		if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "unicorn") {
			once.Do(func() { w.sync(t, next) })
		}
		return inject.None
	})
	w.Gone(last.ID)
	if err := slow.Remove(t.Context(), last.ID); err != nil {
		t.Fatal(err)
	}
	if len(w.Videos()) != 1 {
		t.Fatal("the other worker never came")
	}
	if diff := cmp.Diff(w.model(t), w.dump(t)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// A worker has removed a variant of a term, and is about to remove the term and the others. At
// that moment another brings the term back.
func TestVariantsAreNotLostBetweenTwoWorkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	last, next := newVideo("unicorn", 0), newVideo("unicorn", time.Minute)
	w.sync(t, last)
	var once sync.Once
	slow := w.faulty(t, func(r *http.Request) inject.Fault {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "$batch") && len(w.Videos()) == 0 {
			if _, err := w.terms.Get(t.Context(), "ni", "~nicorn__unicorn"); errors.Is(err, tablestore.ErrNotFound) {
				once.Do(func() { w.sync(t, next) })
			}
		}
		return inject.None
	})
	w.Gone(last.ID)
	if err := slow.Remove(t.Context(), last.ID); err != nil {
		t.Fatal(err)
	}
	if len(w.Videos()) != 1 {
		t.Fatal("the other worker never came")
	}
	if diff := cmp.Diff(w.model(t), w.dump(t)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// A loaded index is one that was made by Syncs.
func TestLoadMakesTheRowsOfSyncs(t *testing.T) {
	azuritetest.Slow(t, "makes thousands of requests")
	t.Parallel()
	w := newWorld(t)
	var all []video.Video
	for i := range 5 {
		v := typicalVideo(time.Duration(i) * time.Minute)
		v.Title = fmt.Sprint("number ", i, " 東京")
		if i == 4 {
			v.Visibility = video.Private
		}
		w.Put(v)
		all = append(all, v)
	}
	for range 2 {
		if err := w.Load(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(w.model(t), w.dump(t)); diff != "" {
			t.Errorf("rows (-want +got):\n%s", diff)
		}
	}
	for _, v := range all {
		if err := w.Remove(t.Context(), v.ID); err != nil {
			t.Fatal(err)
		}
	}
	if rows := w.dump(t); len(rows) != 0 {
		t.Errorf("%d rows are left", len(rows))
	}
}
