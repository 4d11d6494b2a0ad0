package searchindex

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cutroom/cutroom/shared/normalize"
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
		"안녕 세계":                        {"안녕", "녕", "세계", "계"},
		"2024년 서울의":                    {"2024", "년", "서울", "울의", "의"},
		"佐々木":                          {"佐々", "々木", "木"},
		"สวัสดี":                       {"สวัส", "วัสดี", "สดี", "ดี"},
		"ភាសា":                         {"ភាសា", "សា"},
		"ไทย Thai":                     {"ไทย", "ทย", "ย", "thai"},
		"๒๕๖๙ ١٢٣":                     {"2569", "123"},
		"film 🎬 night":                 {"film", "🎬", "night"},
		"'; DROP TABLE videos;--":      {"drop", "table", "videos"},
		strings.Repeat("a", 300):       {strings.Repeat("a", 64)},
		"नमस्ते दुनिया":                {"नमस्ते", "दुनिया"},
		"C++ and C#":                   {"c++", "c", "and", "c#"},
		".NET, C++20 (.io)":            {"net", "c++", "c", "20", "io"},
		"a+b #1 no#2 wait...what . x":  {"a", "b", "1", "no", "2", "wait", "what", "x"},
		"か" + strings.Repeat("゚", 99):  {cut(normalize.Text("か"+strings.Repeat("゚", 99)), maxTermRunes)},
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
			rapid.SampledFrom([]string{"O'Brien", "東京都", "タワー", "node.js", "🎬", "__", "é", "日", "3.14", "a/b", "'", "ſtraße", "x_y", "C++", "c#x", ".net"}),
			rapid.String(),
			inAScript(),
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
		for _, w := range clausesOf(query, true) {
			if !w.in(fieldText{terms: terms}, "en") {
				t.Fatalf("text %q has terms %q: nothing matches %+v", text, terms, w)
			}
		}
		if len(query) > 0 && !holds(strings.Join(texts(words), " "), strings.Join(texts(query), " ")) {
			t.Fatalf("text %q does not hold its own words %q", texts(words), texts(query))
		}
	})
}

// inAScript draws letters, marks and digits of one script, of any in Unicode.
func inAScript() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		script := rapid.SampledFrom(slices.Sorted(maps.Keys(unicode.Scripts))).Draw(t, "script")
		return rapid.StringOfN(rapid.RuneFrom(nil, unicode.Scripts[script]), 1, 12, -1).Draw(t, script)
	})
}

// Where words are not told apart by spaces, all that a person may cut out of a title
// finds it, also while the last letter still lacks its marks.
func TestAPartOfATextWithoutSpacesMatchesIt(t *testing.T) {
	t.Parallel()
	syllables := &unicode.RangeTable{R16: []unicode.Range16{{Lo: 0xAC00, Hi: 0xD7A3, Stride: 1}}}
	scripts := []*unicode.RangeTable{
		unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Tai_Tham, unicode.Han, unicode.Katakana, unicode.Hiragana, syllables,
	}
	rapid.Check(t, func(t *rapid.T) {
		script := rapid.SampledFrom(scripts).Draw(t, "script")
		text := []rune(normalize.Text(rapid.StringOfN(rapid.RuneFrom(nil, script).Filter(inWord), 2, 40, -1).Draw(t, "text")))
		from := rapid.IntRange(0, len(text)-1).Draw(t, "from")
		if unicode.IsMark(text[from]) || unicode.IsNumber(text[from]) {
			t.Skip("a person does not cut there: rapid draws another")
		}
		to := rapid.IntRange(from+1, len(text)).Draw(t, "to")
		terms := termsOf(splitWords(string(text)))
		query := clausesOf(splitWords(string(text[from:to])), true)
		if len(query) == 0 {
			t.Fatalf("%q asks for nothing", string(text[from:to]))
		}
		for _, w := range query {
			if !w.in(fieldText{terms: terms}, "en") {
				t.Fatalf("text %q has terms %q: nothing matches %+v", string(text), terms, w)
			}
		}
	})
}

// No letter and no number of Unicode is left out, whether the segmenter knows it or not.
func TestEveryLetterIsAWord(t *testing.T) {
	t.Parallel()
	for _, table := range []*unicode.RangeTable{unicode.L, unicode.N} {
		for r := rune(0); r <= unicode.MaxRune; r++ {
			if unicode.Is(table, r) && strings.ContainsFunc(normalize.Text(string(r)), inWord) && len(termsOf(splitWords(string(r)))) == 0 {
				t.Fatalf("%U %c has no term", r, r)
			}
		}
	}
}

// The longest title without spaces is found by all of it and by its end.
func TestLongTitlesWithoutSpaces(t *testing.T) {
	t.Parallel()
	var long strings.Builder
	for i := range maxTitleTerms {
		long.WriteRune('一' + rune(i))
	}
	v := newVideo(long.String(), 0)
	for _, q := range []string{v.Title, cut(v.Title, 150), strings.TrimPrefix(v.Title, cut(v.Title, 150))} {
		c, err := parse(Query{Q: q})
		if err != nil {
			t.Errorf("%d characters: %v", len([]rune(q)), err)
		}
		for _, clause := range c {
			if _, texts := documentOf(v); !clause.in(texts[title], "en") {
				t.Errorf("nothing matches %+v", clause)
			}
		}
	}
}

func TestLastWordIsABeginning(t *testing.T) {
	t.Parallel()
	got := clausesOf(splitWords("big buck bu"), true)
	want := []clause{{term: "big"}, {term: "buck"}, {term: "bu", prefix: true}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(clause{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
