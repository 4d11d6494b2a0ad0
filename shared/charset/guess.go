package charset

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/wlynxg/chardet"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/language"
)

// How much of what is not ASCII must be at home in a language: in one that the sender
// named, and in any. The rest are names from elsewhere.
const (
	expected  = 0.75
	plausible = 0.9
)

// guess returns the encoding of a sample, or "":
//
//  1. in one of the languages, the first that it fits;
//  2. as the detector says, which knows letters other than Latin well, if that is
//     plausible in a language;
//  3. in the language that it fits best, the first of those that are alike.
func guess(sample []byte, languages []language.Tag) string {
	detected := namesOf(chardet.DetectAll(sample))
	for _, tag := range languages {
		for _, w := range writingsOf(tag) {
			if best, share := w.best(sample, detected); share >= expected {
				return best
			}
		}
	}
	for _, name := range detected {
		for _, w := range writings {
			if w.script != latin && slices.Contains(strings.Fields(w.encodings), name) && w.fit(read(sample, name)) >= plausible {
				return name
			}
		}
	}
	best, most := "", 0.0
	for _, w := range writings {
		if name, share := w.best(sample, detected); share >= plausible && share > most {
			best, most = name, share
		}
	}
	return best
}

// namesOf are the detector's choices by their WHATWG names, the likeliest first.
func namesOf(results []chardet.Result) (names []string) {
	for _, result := range results {
		if found, err := htmlindex.Get(result.Encoding); err == nil {
			name, _ := htmlindex.Name(found)
			names = append(names, name)
		}
	}
	return names
}

// best is the encoding in which a sample fits a language best. Of those in which it
// fits alike, such as Cyrillic in capitals and in small letters, it is the detector's
// choice, else the first.
func (w *writing) best(sample []byte, detected []string) (best string, most float64) {
	rank := func(name string) int {
		if i := slices.Index(detected, name); i >= 0 {
			return i
		}
		return len(detected)
	}
	ranked := strings.Fields(w.encodings)
	slices.SortStableFunc(ranked, func(a, b string) int { return rank(a) - rank(b) })
	for _, name := range ranked {
		if share := w.fit(read(sample, name)); share > most {
			best, most = name, share
		}
	}
	return best, most
}

// read decodes a sample; "" when some of it is not of this encoding.
func read(sample []byte, name string) string {
	text, err := encodingOf(name).NewDecoder().Bytes(sample)
	if err != nil {
		return ""
	}
	no := func(c rune) bool { return lost(c) == utf8.RuneError || unicode.Is(unicode.Co, c) }
	if strings.ContainsFunc(string(text), no) {
		return ""
	}
	return string(text)
}

// fit is how well a reading fits a language: which part of the letters that are not ASCII
// are such as the language has, in places where it has them.
func (w *writing) fit(text string) float64 {
	if text == "" {
		return 0
	}
	home, foreign := 0.0, 0.0
	before, run := '\n', 0
	letters := []rune(text)
	for i, c := range letters {
		after := '\n'
		if i+1 < len(letters) {
			after = letters[i+1]
		}
		if (c >= utf8.RuneSelf || before >= utf8.RuneSelf) && unicode.IsLower(before) && unicode.IsUpper(c) {
			foreign++
		}
		run++
		switch {
		case c < utf8.RuneSelf:
			run = 0
		case halfWidth(c):
			home, foreign = home+0.95, foreign+0.05
		case w.atHome(c) && w.among(c, before, after, run):
			home++
		case ofWord(c), misplaced(c, before, after):
			foreign++
		}
		before = c
	}
	if home+foreign == 0 {
		return 1
	}
	return home / (home + foreign)
}

// among says whether a letter may stand where it does: a mark has a letter before it,
// few Latin letters that are not ASCII are side by side, others are not mixed with ASCII.
func (w *writing) among(c, before, after rune, run int) bool {
	if unicode.IsMark(c) && !ofWord(before) {
		return false
	}
	if w.script == latin {
		return run <= 4
	}
	ascii := func(c rune) bool { return c < utf8.RuneSelf && unicode.IsLetter(c) }
	return !ascii(before) && !ascii(after)
}

func ofWord(c rune) bool { return unicode.IsLetter(c) || unicode.IsMark(c) }

// halfWidth is katakana as there is some in Shift JIS. In it, most pairs of bytes of
// other encodings look like that, too.
func halfWidth(c rune) bool { return c >= '\uff61' && c <= '\uff9f' }

// misplaced says that a quotation mark stands inside a word, or a symbol at one.
func misplaced(c, before, after rune) bool {
	inside := ofWord(before) && ofWord(after)
	switch {
	case strings.ContainsRune("’·–—…־׳״\u00a0\u00ad\u200c\u200d\u200e\u200f", c), c >= '\u3000' && c < '\u3040', c >= '\uff00' && c < '\uff61':
		return false
	case strings.ContainsRune("“”„‚‘«»‹›•§°™®©€£", c):
		return inside
	case strings.ContainsRune("²³", c) && before == 'm':
		return inside
	}
	return ofWord(before) || ofWord(after)
}
