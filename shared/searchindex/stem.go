package searchindex

import (
	"cmp"
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

type language string

// languages have stemmers. The letters tell scripts apart. Those written in Latin letters
// are told apart by the common words of a text: the language of which the text has most
// is taken, the first of two with as many, and English if the text has none. Other
// scripts have one stemmer for all of their languages. To change this table, index every
// video again.
var languages = []spoken{
	{"en", unicode.Latin, english.Stem, "the a of and to in is it i you that was for on are with as his they at be this have from or by we an my her what how"},
	{"de", unicode.Latin, german.Stem, "der die das und ist nicht ein eine zu den mit von auf fur im dem des sich auch es als wie bei aus am ich wir nach"},
	{"fr", unicode.Latin, french.Stem, "le la les de des du et un une est dans que qui pour sur pas au aux avec ce par nous vous il elle sont en"},
	{"es", unicode.Latin, spanish.Stem, "el la los las de del y un una en que es por con para se su al lo como mas pero muy"},
	{"it", unicode.Latin, italian.Stem, "il lo la gli le di del della dei e un una in che per con non si da sono come al nel alla"},
	{"pt", unicode.Latin, portuguese.Stem, "o a os as de do da dos das e um uma em que no na nos por com para nao se mais como ao"},
	{"nl", unicode.Latin, dutch.Stem, "de het een en van in is dat op te met voor niet zijn aan er om ook als bij naar"},
	{"sv", unicode.Latin, swedish.Stem, "och att det som en ett ar pa av for med den till inte om har jag de vid"},
	{"no", unicode.Latin, norwegian.Stem, "og i det er til som en et pa av for med ikke den har jeg at om fra vi"},
	{"da", unicode.Latin, danish.Stem, "og i det er til som en et pa af for med ikke den har jeg at om fra vi"},
	{"fi", unicode.Latin, finnish.Stem, "ja on ei se etta oli mutta han joka kun niin myos ovat kuin tama"},
	{"hu", unicode.Latin, hungarian.Stem, "a az es hogy nem is egy van volt meg ez csak de mint vagy"},
	{"ro", unicode.Latin, romanian.Stem, "si in de la cu nu pe un o este din care ca pentru mai ce sa sunt"},
	{"tr", unicode.Latin, turkish.Stem, "ve bir bu da de icin ile cok ne var ama gibi daha mi"},
	{"ga", unicode.Latin, irish.Stem, "agus an na ar is go sa ni do le leis ag bhi se"},
	{"ru", unicode.Cyrillic, russian.Stem, ""},
	{"ar", unicode.Arabic, arabic.Stem, ""},
	{"ta", unicode.Tamil, tamil.Stem, ""},
}

type spoken struct {
	language language
	letters  *unicode.RangeTable
	stem     func(*snowballstem.Env) bool
	common   string
}

func languageOf(words []string) language {
	found := make([]int, len(languages))
	for i, l := range languages {
		common := strings.Fields(l.common)
		for _, word := range words {
			if slices.Contains(common, word) {
				found[i]++
			}
		}
	}
	return languages[slices.Index(found, slices.Max(found))].language
}

// minStemmed is the shortest word, in characters, that has a stem.
const minStemmed = 3

// languagesOf returns the languages to which a folded word may belong. What is not a word
// has none.
func languagesOf(word string) []spoken {
	if utf8.RuneCountInString(word) < minStemmed || !onlyLetters(word) {
		return nil
	}
	first, _ := utf8.DecodeRuneInString(word)
	return slices.DeleteFunc(slices.Clone(languages), func(s spoken) bool { return !unicode.Is(s.letters, first) })
}

func onlyLetters(word string) bool {
	return !strings.ContainsFunc(word, func(r rune) bool { return !unicode.In(r, unicode.L, unicode.M) })
}

func stemsOf(word string) map[language]string {
	stems := map[language]string{}
	for _, l := range languagesOf(word) {
		stems[l.language] = l.stemOf(word)
	}
	return stems
}

// stemOf returns the stem of a word in a text of language in, or "".
func stemOf(word string, in language) string {
	all := languagesOf(word)
	for _, l := range all {
		if l.language == in || len(all) == 1 {
			return l.stemOf(word)
		}
	}
	return ""
}

// stemOf stems one word. Some stemmers add accents, so the stem is folded again.
func (s spoken) stemOf(word string) string {
	env := snowballstem.NewEnv(word)
	s.stem(env)
	return cmp.Or(normalize.Text(env.Current()), word)
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

func distinct(stems map[language]string) []string {
	return slices.Compact(slices.Sorted(maps.Values(stems)))
}
