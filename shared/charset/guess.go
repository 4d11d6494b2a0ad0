package charset

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/wlynxg/chardet"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/language"
	"golang.org/x/text/unicode/norm"
)

// plausible is how much of what is not ASCII must be at home in a language. The rest are
// names from elsewhere.
const plausible = 0.9

// guess returns the encoding of a sample, or nil: the best for the first of the languages
// that it is plausible in, else for any.
func guess(sample []byte, languages []language.Tag) encoding.Encoding {
	detected := chardet.DetectAll(sample)
	for _, tag := range append(slices.Clone(languages), language.Und) {
		if best := guessIn(tag, sample, detected); best != nil {
			return best
		}
	}
	return nil
}

// guessIn tries the encodings of a language. Of those that are plausible it takes the
// likeliest for the detector, which knows letters other than Latin well; of these that
// which fits best, the first of those that are alike.
func guessIn(tag language.Tag, sample []byte, detected []chardet.Result) (best encoding.Encoding) {
	most := 0.0
	for _, w := range writings() {
		if !w.isOf(tag) {
			continue
		}
		for _, e := range w.encodings {
			score := w.fit(read(sample, e))
			if score < plausible {
				continue
			}
			at := slices.IndexFunc(detected, func(d chardet.Result) bool {
				known, _ := htmlindex.Get(d.Encoding)
				return known == e
			})
			if at >= 0 && !w.latin() {
				score += float64(len(detected) - at)
			}
			if score > most {
				best, most = e, score
			}
		}
	}
	return best
}

// read decodes a sample; "" when some of it is not of this encoding.
func read(sample []byte, e encoding.Encoding) string {
	text, err := e.NewDecoder().Bytes(sample)
	if err != nil || strings.ContainsFunc(string(text), func(c rune) bool { return lost(c) == utf8.RuneError }) {
		return ""
	}
	return norm.NFC.String(string(text))
}

// fit is how well a reading fits a language: which part of the letters that are not ASCII
// are such as the language has, in places where it has them.
func (w writing) fit(text string) float64 {
	if text == "" {
		return 0
	}
	home, foreign := 0.0, 0.0
	before := '\n'
	letters := []rune(text + "\n")
	for i, c := range letters[:len(letters)-1] {
		after := letters[i+1]
		if (c >= utf8.RuneSelf || before >= utf8.RuneSelf) && unicode.IsLower(before) && unicode.IsUpper(c) {
			foreign++
		}
		switch {
		case c < utf8.RuneSelf:
		case w.atHome(c, before, after):
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

// atHome says whether a letter is one of this writing, and may stand where it does: a mark
// has a letter before it, letters other than Latin are not mixed with ASCII.
func (w writing) atHome(c, before, after rune) bool {
	ascii := func(c rune) bool { return c < utf8.RuneSelf && unicode.IsLetter(c) }
	switch {
	case !w.latin() && (ascii(before) || ascii(after)):
		return false
	case !w.latin() && unicode.IsMark(c):
		return ofWord(before)
	}
	return unicode.Is(w.letters, c) || unicode.Is(w.letters, unicode.ToLower(c))
}

// isOf says whether a language is written so; the one that is not known may be.
func (w writing) isOf(tag language.Tag) bool {
	base, _ := tag.Base()
	script, _ := tag.Script()
	for name := range strings.FieldsSeq(w.languages) {
		own := language.MustParse(name)
		ownBase, _ := own.Base()
		ownScript, _ := own.Script()
		if ownBase == base && ownScript == script {
			return true
		}
	}
	return tag == language.Und
}

func (w writing) latin() bool {
	last := w.letters.R16[len(w.letters.R16)-1]
	return unicode.Is(unicode.Latin, rune(last.Hi))
}

func ofWord(c rune) bool { return unicode.IsLetter(c) || unicode.IsMark(c) }

// misplaced says that a quotation mark stands inside a word, or a symbol at one.
func misplaced(c, before, after rune) bool {
	switch {
	case c >= '\u3000', strings.ContainsRune("’·…־׳״", c), unicode.In(c, unicode.Zs, unicode.Cf, unicode.Pd):
		return false
	case unicode.In(c, unicode.Pi, unicode.Pf), strings.ContainsRune("„‚•§°™®©€£²³", c):
		return ofWord(before) && ofWord(after)
	}
	return ofWord(before) || ofWord(after)
}
