package searchindex

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
)

func TestATypoStillFindsTheTitle(t *testing.T) {
	azuritetest.Slow(t, "makes thousands of requests")
	t.Parallel()
	w := newWorld(t)
	harbour := newVideo("The old harbour", 0)
	harbour.Actors = []string{"Seán O'Brien"}
	harbor := newVideo("Красный корабль", time.Minute)
	w.sync(t, harbour)
	w.sync(t, harbor)
	for i := range 5 {
		w.sync(t, newVideo(fmt.Sprintf("market street %d", i), time.Duration(i)*time.Hour))
	}
	w.sync(t, newVideo("markets and markers", 9*time.Hour))
	for _, c := range []struct {
		q    Query
		mean Query
		hits int
	}{
		{Query{Q: "harbuor"}, Query{Q: "harbour"}, 1},  // transposed
		{Query{Q: "harbor"}, Query{Q: "harbour"}, 1},   // missing
		{Query{Q: "harrbour"}, Query{Q: "harbour"}, 1}, // too much
		{Query{Q: "harvour"}, Query{Q: "harbour"}, 1},  // another
		{Query{Q: "garbour"}, Query{Q: "harbour"}, 1},  // the first
		{Query{Q: "ahrbour"}, Query{Q: "harbour"}, 1},  // the first two
		{Query{Q: "arbour"}, Query{Q: "harbour"}, 1},   //
		{Query{Q: "xharbour"}, Query{Q: "harbour"}, 1}, //
		{Query{Q: "hxrbour"}, Query{Q: "harbour"}, 1},  //
		{Query{Q: "harbouz"}, Query{Q: "harbour"}, 1},  // the last
		{Query{Q: "The  OLD, Harbuor!"}, Query{Q: "The  OLD, harbour!"}, 1},
		{Query{Q: `"old harbuor"`}, Query{Q: `"old harbour"`}, 1},
		{Query{Q: "harbuor odl"}, Query{}, 0}, // three letters
		{Query{Q: "harbuor", Title: "olds"}, Query{Q: "harbour", Title: "olds"}, 1},
		{Query{Title: "harbuor"}, Query{Title: "harbour"}, 1},
		{Query{Actor: "O'Briem"}, Query{Actor: "obrien"}, 1},
		{Query{Actor: "harbuor"}, Query{}, 0},                         // no actor has that name
		{Query{Q: "красны"}, Query{}, 1},                              // a beginning: no typo
		{Query{Q: "краснйы кораблт"}, Query{Q: "красный корабль"}, 1}, //
		{Query{Q: "marke"}, Query{}, 6},                               // a beginning
		{Query{Q: "marktes"}, Query{Q: "markets"}, 6},                 // and its other forms
		{Query{Q: "marked"}, Query{Q: "market"}, 6},                   // of market and marker, what more videos have
		{Query{Q: "hrbuor"}, Query{}, 0},                              // two typos
		{Query{Q: "harbour market"}, Query{}, 0},                      // both exist
		{Query{Q: "harbuor market"}, Query{}, 0},                      // corrected, there is still nothing
		{Query{Q: "2027"}, Query{}, 0},
	} {
		r, err := w.Search(t.Context(), c.q, 10, "")
		if err != nil {
			t.Fatal(err)
		}
		var mean Query
		if r.DidYouMean != nil {
			mean = *r.DidYouMean
		}
		if diff := cmp.Diff(c.mean, mean); diff != "" || len(r.Hits) != c.hits {
			t.Errorf("%+v: %d hits, want %d; did you mean (-want +got):\n%s", c.q, len(r.Hits), c.hits, diff)
		}
		if r.Requests > 60 || r.EntitiesRead > 60 {
			t.Errorf("%+v cost %d rows in %d requests", c.q, r.EntitiesRead, r.Requests)
		}
	}
	// The pages after the first are of the corrected query too, and say so.
	var got []engine.ID
	for token, pages := "", 0; pages == 0 || token != ""; pages++ {
		r, err := w.Search(t.Context(), Query{Q: "streat"}, 2, token)
		if err != nil || r.DidYouMean == nil || r.DidYouMean.Q != "street" {
			t.Fatalf("page %d: %+v, %v", pages, r.DidYouMean, err)
		}
		got = append(got, r.Hits...)
		token = r.Next
	}
	if diff := cmp.Diff(w.scan(t, Query{Q: "street"}), got); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
}

// Any typo of one letter shares a rest with the word.
func TestRestsMeetForEveryTypo(t *testing.T) {
	t.Parallel()
	letters := rapid.StringOfN(rapid.RuneFrom([]rune("abcéя")), minCorrected+1, 9, -1)
	rapid.Check(t, func(t *rapid.T) {
		word := []rune(letters.Draw(t, "word"))
		i := rapid.IntRange(0, len(word)-2).Draw(t, "at")
		with := rapid.RuneFrom([]rune("abcéя")).Draw(t, "with")
		typo := append([]rune{}, word...)
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			typo[i], typo[i+1] = typo[i+1], typo[i]
		case 1:
			typo[i] = with
		case 2:
			typo = append(typo[:i], typo[i+1:]...)
		case 3:
			typo = append(append(typo[:i:i], with), word[i:]...)
		}
		if string(typo) == string(word) {
			t.Skip("no typo: rapid draws another")
		}
		if !oneTypo(string(word), string(typo)) || !oneTypo(string(typo), string(word)) {
			t.Errorf("%q and %q are said to differ by more than one typo", string(word), string(typo))
		}
		known := map[string]bool{}
		for _, rest := range rests(string(word)) {
			known[rest] = true
		}
		for _, rest := range rests(string(typo)) {
			if known[rest] {
				return
			}
		}
		t.Errorf("%q and %q have no rest in common", string(word), string(typo))
	})
}
