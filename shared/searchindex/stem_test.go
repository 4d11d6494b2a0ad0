package searchindex

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/normalize"
)

func TestLanguageOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]language{
		"":                                 "en",
		"Big Buck Bunny":                   "en",
		"The harbour at night":             "en",
		"Die Häuser am Hafen":              "de",
		"Les chevaux sont dans le pré":     "fr",
		"Las canciones de mi abuela y yo":  "es",
		"Le canzoni della nonna con amore": "it",
		"De huizen van het dorp":           "nl",
		"Husen och båtarna på ön":          "sv",
		"Kapal di pelabuhan dengan nelayan dari desa itu": "it", // Indonesian is not known: "di"
	} {
		var words []string
		for _, w := range splitWords(text) {
			words = append(words, w.text)
		}
		if got := languageOf(words); got != want {
			t.Errorf("%q is taken for %s, want %s", text, got, want)
		}
	}
}

// Stemmers get whatever people type.
func TestStemsOfAnything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := normalize.Text(rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-zäéßığşäöа-яюؠ-يஂ-ௐ]{1,20}`)).Draw(t, "word"))
		for l, stem := range stemsOf(word) {
			if stem == "" || stem != normalize.Text(stem) {
				t.Errorf("%q has the stem %q in %q", word, stem, l)
			}
			if stemOf(word, l) != stem {
				t.Errorf("%q: two stems in %q", word, l)
			}
		}
	})
}

// Titles of the languages that the papers came in, and of some others, are found
// by their words, by other forms of them, or by pairs of characters.
func TestTitlesInManyLanguages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	names := map[engine.ID]string{}
	for i, title := range []string{
		"Красный корабль уходит из гавани", "Йога на берегу моря", "红色的船在港口", "Kapal merah meninggalkan pelabuhan",
		"Three harbours of the north", "Running a marathon", "Die Häuser am Hafen", "Les chevaux dans le pré",
		"Canciones de la abuela", "La marina de Valencia", "السفن في الميناء",
	} {
		v := newVideo(title, time.Duration(i)*time.Minute)
		names[v.ID] = title
		w.sync(t, v)
	}
	for _, c := range []struct {
		q    string
		want []string
	}{
		{"красный корабль", []string{"Красный корабль уходит из гавани"}},
		{"КРАСНЫЕ корабли", []string{"Красный корабль уходит из гавани"}},
		{"гавань", []string{"Красный корабль уходит из гавани"}},
		{"Красн", []string{"Красный корабль уходит из гавани"}},
		{"йога море", []string{"Йога на берегу моря"}},
		{"红色", []string{"红色的船在港口"}},
		{"港口 船", []string{"红色的船在港口"}},
		{"口港", nil},
		{"kapal pelabuhan", []string{"Kapal merah meninggalkan pelabuhan"}},
		{"pelab", []string{"Kapal merah meninggalkan pelabuhan"}},
		{"harbour", []string{"Three harbours of the north"}},
		{"harbours northern", nil},
		{"harbour's north", []string{"Three harbours of the north"}},
		{`"three harbour" north`, []string{"Three harbours of the north"}}, // no other form in quotes: a typo
		{`"three harbours"`, []string{"Three harbours of the north"}},
		{"marathons run", []string{"Running a marathon"}},
		{"haus", []string{"Die Häuser am Hafen"}},
		{"cheval", []string{"Les chevaux dans le pré"}},
		{"canción", []string{"Canciones de la abuela"}},
		{"marine", []string{"La marina de Valencia"}}, // Spanish: marin
		{"السفن", []string{"السفن في الميناء"}},
	} {
		q := Query{Q: c.q}
		var got []string
		for _, id := range w.pages(t, q, 3) {
			got = append(got, names[id])
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.q, diff)
		}
	}
}
