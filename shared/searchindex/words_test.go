package searchindex

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestTermsOf(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]string{
		"":                             nil,
		" ... !? -- ":                  nil,
		"The Big  Buck, the bunny":     {"the", "big", "buck", "bunny"},
		"O'Brien and O’Brien":          {"obrien", "o", "brien", "and"},
		"node.js 3.14 U.S.A.":          {"nodejs", "node", "js", "314", "3", "14", "usa", "u", "s", "a"},
		"holiday__2026/final_cut.mp4":  {"holiday", "2026", "final", "cutmp4", "cut", "mp4"},
		"Crème Brûlée":                 {"creme", "brulee"},
		"東京都":                          {"東京", "京都", "都"},
		"東京 タワー":                       {"東京", "京", "タワ", "ワー", "ー"},
		"猫 cat":                        {"猫", "cat"},
		"안녕 세계":                        {"안녕", "세계"},
		"film 🎬 night":                 {"film", "🎬", "night"},
		"'; DROP TABLE videos;--":      {"drop", "table", "videos"},
		strings.Repeat("a", 300):       {strings.Repeat("a", 64)},
		"नमस्ते दुनिया":                {"नमस्ते", "दुनिया"},
		"C++ and C#":                   {"c", "and"},
		"\xff\xfe broken \x00 control": {"broken", "control"},
	} {
		if diff := cmp.Diff(want, termsOf(splitWords(in))); diff != "" {
			t.Errorf("terms of %q (-want +got):\n%s", in, diff)
		}
	}
}

// Whatever a person types from a text, its terms hold what the query wants.
func TestAQueryOfWordsOfATextMatchesTheText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.OneOf(
			rapid.SampledFrom([]string{"O'Brien", "東京都", "タワー", "node.js", "🎬", "__", "é", "日", "3.14", "a/b", "'", "ſtraße", "x_y"}),
			rapid.String(),
		), 1, 6).Draw(t, "pieces")
		text := strings.Join(pieces, " ")
		words := splitWords(text)
		terms := termsOf(words)
		if len(words) > maxTextRunes/4 {
			t.Skip("too long to be kept whole: rapid draws another")
		}
		from := rapid.IntRange(0, len(pieces)-1).Draw(t, "from")
		to := rapid.IntRange(from+1, len(pieces)).Draw(t, "to")
		query := splitWords(strings.Join(pieces[from:to], " "))
		for _, w := range wantedOf(query, true) {
			if !w.in(terms, "en") {
				t.Fatalf("text %q has terms %q: nothing matches %+v", text, terms, w)
			}
		}
		if !holds(texts(words), texts(query)) {
			t.Fatalf("text %q does not hold its own words %q", texts(words), texts(query))
		}
	})
}

func TestLastWordIsABeginning(t *testing.T) {
	t.Parallel()
	got := wantedOf(splitWords("big buck bu"), true)
	want := []wanted{{term: "big"}, {term: "buck"}, {term: "bu", prefix: true}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(wanted{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
