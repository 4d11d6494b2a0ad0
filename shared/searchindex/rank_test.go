package searchindex

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
)

// found reads the first page and shows names.
func found(t *testing.T, w *world, names map[engine.ID]string, q Query) (list []string) {
	t.Helper()
	r, err := w.Search(t.Context(), q, 100, "")
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	for _, h := range r.Hits {
		list = append(list, names[h])
	}
	return list
}

func TestBestMatchFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	names := map[engine.ID]string{}
	age := time.Duration(0)
	add := func(name, title string, change func(*video.Video)) {
		age -= time.Minute // each is newer than those before
		v := newVideo(title, age)
		change(&v)
		names[v.ID] = name
		w.sync(t, v)
	}
	none := func(*video.Video) {}
	add("exact title", "Night Boat", none)
	add("phrase in title", "The night boat sails", none)
	add("title", "A boat by night", none)
	add("title, other form", "Boats by night", none)
	add("title and actor", "Boat", func(v *video.Video) { v.Actors = []string{"Ann Night"} })
	add("people", "a", func(v *video.Video) { v.Actors, v.Directors = []string{"Ann Night"}, []string{"Bo Boat"} })
	add("tags", "b", func(v *video.Video) { v.Tags = []string{"night", "boat"} })
	add("channel", "c", func(v *video.Video) { v.Channel = "boat night" })
	add("description", "d", func(v *video.Video) { v.Description = "a boat in the night" })
	add("description, newer", "e", func(v *video.Video) { v.Description = "a boat in the night" })
	add("other", "day boat", none)
	want := []string{
		"exact title", "phrase in title", "title", "title, other form", "title and actor", "people", "tags", "channel",
		"description, newer", "description",
	}
	if diff := cmp.Diff(want, found(t, w, names, Query{Q: "Night boat", Sort: Best})); diff != "" {
		t.Errorf("best (-want +got):\n%s", diff)
	}
	// Pages hold the same order, while newer and better videos come.
	var got []string
	pages := 0
	for token := ""; pages == 0 || token != ""; pages++ {
		r, err := w.Search(t.Context(), Query{Q: "Night boat", Sort: Best}, 3, token)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range r.Hits {
			got = append(got, names[h])
		}
		token = r.Next
		add("newcomer", "Night boat", none)
	}
	if diff := cmp.Diff(want, got); diff != "" || pages != 4 {
		t.Errorf("%d pages (-want +got):\n%s", pages, diff)
	}
}

func TestDescriptionIsAFieldOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	names := map[engine.ID]string{}
	for i, c := range []struct{ name, title, description string }{
		{"both", "harbour", "the harbour at night"}, {"title", "harbour night", ""}, {"description", "x", "Harbours by night"},
	} {
		v := newVideo(c.title, time.Duration(i)*time.Minute)
		v.Description = c.description
		names[v.ID] = c.name
		w.sync(t, v)
	}
	for _, c := range []struct {
		q    Query
		want []string
	}{
		{Query{Description: "harbour"}, []string{"both", "description"}},
		{Query{Description: `"harbour"`}, []string{"both"}},
		{Query{Description: "harb"}, []string{"both", "description"}},
		{Query{Description: "h"}, []string{"both", "description"}},
		{Query{Description: "night harbour"}, []string{"both", "description"}},
		{Query{Description: `"at night"`}, []string{"both"}},
		{Query{Description: "night", Title: "harbour"}, []string{"both"}},
		{Query{Description: "x"}, nil},
		{Query{Description: "harbuor"}, []string{"both", "description"}},
	} {
		if diff := cmp.Diff(c.want, found(t, w, names, c.q)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.q, diff)
		}
	}
}

// seed writes posting lists and their terms as a large catalogue has them, in
// transactions of 100 rows: term → every how many-th of n videos has it.
func seed(t *testing.T, w *world, n int, every map[string]int) {
	t.Helper()
	ids := make([]video.Video, n)
	for i := range ids {
		ids[i] = newVideo("seeded", time.Duration(i)*time.Minute)
		ids[i].Tags = []string{"Tag " + string(rune('a'+i%3)), "all"}
		ids[i].Channel = "Channel " + string(rune('a'+i%2))
	}
	for term, step := range every {
		var ops []tablestore.Op
		for i := 0; i < n; i += step {
			ops = append(ops, tablestore.Op{Kind: tablestore.OpUpsert, Entity: tablestore.Entity{
				PartitionKey: postingKey(anyField, term, ids[i].ID), RowKey: catalog.Place(ids[i].CreatedAt, ids[i].ID),
				Props: tablestore.Props(document{ID: ids[i].ID, Title: ids[i].Title, Channel: ids[i].Channel, Tags: ids[i].Tags, Language: "en"}),
			}})
		}
		if err := w.postings.SubmitAll(t.Context(), ops); err != nil {
			t.Fatal(err)
		}
		pk, rk := termKeys(term)
		_, err := w.terms.Upsert(t.Context(), tablestore.Entity{
			PartitionKey: pk, RowKey: rk, Props: map[string]any{"Term": term},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A frequent word costs nothing beside a rare one, facets and the best matches
// of a long list read what they count and rank, and everything is bounded.
func TestCostOfLongLists(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(t, w, 2000, map[string]int{"frequent": 1, "common": 2, "rare": 400})
	for _, c := range []struct {
		q              Query
		hits           int
		rows, requests int // at most
	}{
		{Query{Q: `"rare"`}, 5, 10, 5},
		{Query{Q: `"rare" "frequent"`}, 5, 30, 14},
		{Query{Q: `"rare" "frequent" "common"`}, 5, 50, 22},
		{Query{Q: `"common" "frequent"`}, 10, 60, 10},
		{Query{Q: `"frequent"`}, 10, 20, 5},
		{Query{Q: `"frequent"`, Sort: Best}, 10, 510, 8},
		{Query{Q: `"frequent"`, Facets: true}, 10, 1020, 8},
		{Query{Q: `"common" "frequent"`, Facets: true}, 10, 4000, 60},
		{Query{Q: `"rare" "frequent"`, Facets: true, Sort: Best}, 5, 30, 14},
	} {
		r, err := w.Search(t.Context(), c.q, 10, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%-32s %-6s facets %-5v %2d hits: %4d rows in %2d requests", c.q.Q, c.q.Sort, c.q.Facets, len(r.Hits), r.EntitiesRead, r.Requests)
		if len(r.Hits) != c.hits || r.EntitiesRead > c.rows || r.Requests > c.requests {
			t.Errorf("%+v: %d hits, %d rows in %d requests; want %d, at most %d in %d",
				c.q, len(r.Hits), r.EntitiesRead, r.Requests, c.hits, c.rows, c.requests)
		}
	}
	r, err := w.Search(t.Context(), Query{Q: "frequent", Facets: true}, 1, "")
	if err != nil {
		t.Fatal(err)
	}
	want := &Facets{
		Tags:     []Facet{{"all", 1000}, {"Tag a", 334}, {"Tag b", 333}, {"Tag c", 333}},
		Channels: []Facet{{"Channel a", 500}, {"Channel b", 500}}, Actors: []Facet{}, HitsCounted: 1000,
	}
	if diff := cmp.Diff(want, r.Facets); diff != "" {
		t.Errorf("facets (-want +got):\n%s", diff)
	}
	// Beyond the ranked hits the order is that of the list.
	seen := map[engine.ID]bool{}
	for token, pages := "", 0; pages == 0 || token != ""; pages++ {
		r, err := w.Search(t.Context(), Query{Q: `"common"`, Sort: Best}, 100, token)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range r.Hits {
			seen[h] = true
		}
		token = r.Next
	}
	if len(seen) != 1000 {
		t.Errorf("%d different videos on all pages, want 1000", len(seen))
	}
}

// Slow storage shortens pages instead of making them late, and loses no hit.
func TestSlowScansEndEarly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(t, w, 60, map[string]int{"frequent": 1, "common": 2, "rare": 3})
	q := Query{Q: `"rare" "common"`}
	whole, err := w.Search(t.Context(), q, 100, "")
	if err != nil || len(whole.Hits) != 10 || whole.Next != "" {
		t.Fatalf("%d hits, want 10: %v", len(whole.Hits), err)
	}
	w.scanTime = 1
	var found []engine.ID
	pages := 0
	for token := ""; pages == 0 || token != ""; pages++ {
		r, err := w.Search(t.Context(), q, 100, token)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, r.Hits...)
		token = r.Next
	}
	if pages < 3 {
		t.Errorf("%d pages: no scan was ended by the time", pages)
	}
	for i, h := range whole.Hits {
		if i >= len(found) || found[i] != h || len(found) != len(whole.Hits) {
			t.Fatalf("found %v, want the hits of the whole scan", found)
		}
	}
}

func TestFacetsCountTheWholeResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 12 {
		v := newVideo("film", time.Duration(i)*time.Minute)
		v.Tags = [][]string{{"Sea"}, {"sea", "SEA", "Café"}, {"cafe"}, {"other"}}[i%4]
		v.Actors = []string{"Ann"}
		if i == 0 {
			v.Title = "movie"
		}
		w.sync(t, v)
	}
	want := &Facets{
		Tags:     []Facet{{"Café", 6}, {"sea", 5}, {"other", 3}},
		Channels: []Facet{{"c", 11}}, Actors: []Facet{{"Ann", 11}}, HitsCounted: 11, Complete: true,
	}
	for token, pages := "", 0; pages == 0 || token != ""; pages++ {
		r, err := w.Search(t.Context(), Query{Q: "film", Facets: true}, 4, token)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, r.Facets); diff != "" {
			t.Errorf("page %d (-want +got):\n%s", pages, diff)
		}
		token = r.Next
	}
	r, err := w.Search(t.Context(), Query{Q: "nothing", Facets: true}, 4, "")
	if diff := cmp.Diff(&Facets{Tags: []Facet{}, Channels: []Facet{}, Actors: []Facet{}, Complete: true}, r.Facets); err != nil || diff != "" {
		t.Errorf("of nothing: %v (-want +got):\n%s", err, diff)
	}
}
