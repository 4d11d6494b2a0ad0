package searchindex

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/arabic"
	"github.com/blevesearch/snowballstem/danish"
	"github.com/blevesearch/snowballstem/dutch"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/finnish"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/hungarian"
	"github.com/blevesearch/snowballstem/irish"
	"github.com/blevesearch/snowballstem/italian"
	"github.com/blevesearch/snowballstem/norwegian"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/romanian"
	"github.com/blevesearch/snowballstem/russian"
	"github.com/blevesearch/snowballstem/spanish"
	"github.com/blevesearch/snowballstem/swedish"
	"github.com/blevesearch/snowballstem/tamil"
	"github.com/blevesearch/snowballstem/turkish"

	"github.com/cutroom/cutroom/shared/normalize"
)

// language is the code of a language that is written in Latin letters.
type language string

type stemmer func(*snowballstem.Env) bool

// latin has the languages that are written in Latin letters. The letters do not tell
// them apart, so the common words of a text do: the language of which the text has
// most is taken, the first of two with as many, and English if the text has none. To
// change this table, index every video again.
var latin = []struct {
	code   language
	stem   stemmer
	common string
}{
	{"en", english.Stem, "the a of and to in is it i you that was for on are with as his they at be this have from or by we an my her what how"},
	{"de", german.Stem, "der die das und ist nicht ein eine zu den mit von auf fur im dem des sich auch es als wie bei aus am ich wir nach"},
	{"fr", french.Stem, "le la les de des du et un une est dans que qui pour sur pas au aux avec ce par nous vous il elle sont en"},
	{"es", spanish.Stem, "el la los las de del y un una en que es por con para se su al lo como mas pero muy"},
	{"it", italian.Stem, "il lo la gli le di del della dei e un una in che per con non si da sono come al nel alla"},
	{"pt", portuguese.Stem, "o a os as de do da dos das e um uma em que no na nos por com para nao se mais como ao"},
	{"nl", dutch.Stem, "de het een en van in is dat op te met voor niet zijn aan er om ook als bij naar"},
	{"sv", swedish.Stem, "och att det som en ett ar pa av for med den till inte om har jag de vid"},
	{"no", norwegian.Stem, "og i det er til som en et pa av for med ikke den har jeg at om fra vi"},
	{"da", danish.Stem, "og i det er til som en et pa af for med ikke den har jeg at om fra vi"},
	{"fi", finnish.Stem, "ja on ei se etta oli mutta han joka kun niin myos ovat kuin tama"},
	{"hu", hungarian.Stem, "a az es hogy nem is egy van volt meg ez csak de mint vagy"},
	{"ro", romanian.Stem, "si in de la cu nu pe un o este din care ca pentru mai ce sa sunt"},
	{"tr", turkish.Stem, "ve bir bu da de icin ile cok ne var ama gibi daha mi"},
	{"ga", irish.Stem, "agus an na ar is go sa ni do le leis ag bhi se"},
}

// scripts have one stemmer for every language that is written in them.
var scripts = []struct {
	letters *unicode.RangeTable
	stem    stemmer
}{
	{unicode.Cyrillic, russian.Stem},
	{unicode.Arabic, arabic.Stem},
	{unicode.Tamil, tamil.Stem},
}

// commonIn has, for a common word, the indexes in latin of its languages.
var commonIn = func() map[string][]int {
	in := map[string][]int{}
	for i, l := range latin {
		for word := range strings.FieldsSeq(l.common) {
			in[word] = append(in[word], i)
		}
	}
	return in
}()

// languageOf guesses the language of a text.
func languageOf(words []string) language {
	found := make([]int, len(latin))
	best := 0
	for _, word := range words {
		for _, i := range commonIn[word] {
			found[i]++
		}
	}
	for i, n := range found {
		if n > found[best] {
			best = i
		}
	}
	return latin[best].code
}

// minStemmed is the shortest word, in characters, that has a stem.
const minStemmed = 3

// stemmersOf returns the stemmers of the languages to which a folded word may
// belong. A script with one stemmer has the code "". What is not a word has none.
func stemmersOf(word string) map[language]stemmer {
	if utf8.RuneCountInString(word) < minStemmed || !onlyLetters(word) {
		return nil
	}
	first, _ := utf8.DecodeRuneInString(word)
	if unicode.Is(unicode.Latin, first) {
		return latinStemmers
	}
	for _, s := range scripts {
		if unicode.Is(s.letters, first) {
			return map[language]stemmer{"": s.stem}
		}
	}
	return nil
}

var latinStemmers = func() map[language]stemmer {
	all := map[language]stemmer{}
	for _, l := range latin {
		all[l.code] = l.stem
	}
	return all
}()

func onlyLetters(word string) bool {
	return !strings.ContainsFunc(word, func(r rune) bool { return !unicode.In(r, unicode.L, unicode.M) })
}

// stemsOf returns the stem of a word in each language to which it may belong.
func stemsOf(word string) map[language]string {
	stems := map[language]string{}
	for l, stem := range stemmersOf(word) {
		stems[l] = run(stem, word)
	}
	return stems
}

// stemOf returns the stem of a word in a text of language l, or "".
func stemOf(word string, l language) string {
	stemmers := stemmersOf(word)
	for _, code := range []language{"", l} {
		if stem := stemmers[code]; stem != nil {
			return run(stem, word)
		}
	}
	return ""
}

// run stems one word. Some stemmers add accents, so the stem is folded again.
func run(stem stemmer, word string) string {
	env := snowballstem.NewEnv(word)
	stem(env)
	if s := normalize.Text(env.Current()); s != "" {
		return s
	}
	return word
}

// related returns the languages in which two words have the same stem, so that they
// are forms of one word; nil means all languages. The words are given by their stems.
func related(a, b map[language]string) (in []language, ok bool) {
	for l, stem := range a {
		if b[l] == stem {
			in = append(in, l)
		}
	}
	if len(in) == len(a) {
		return nil, len(a) > 0
	}
	slices.Sort(in)
	return in, len(in) > 0
}

// distinct returns the stems, each once.
func distinct(stems map[language]string) []string {
	return slices.Compact(slices.Sorted(maps.Values(stems)))
}
