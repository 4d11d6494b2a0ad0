package searchindex

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/segment"

	"github.com/cutroom/cutroom/shared/normalize"
)

const (
	// maxTermRunes cuts long words, in videos and in queries alike, so that a
	// term always fits a key.
	maxTermRunes = 64
	// maxTextRunes is how much of one field is read.
	maxTextRunes = 10_000
)

// word is one folded word of a text. A phrase is compared with the words of a text
// in their order.
type word struct {
	text  string   // letters, digits and marks only, or one symbol such as an emoji
	term  string   // what a query with this word asks for: the text with its signs, "c++"
	parts []string // "o'brien" is the word "obrien" with the parts "o" and "brien"

	// Where spaces do not tell words apart, every character is a word, and gram
	// neighbours make a term. joined says that no space or punctuation is between
	// the character and the one before.
	gram   int // 0: a word by itself
	joined bool
}

// Of Chinese, Japanese and Korean two characters make a term. A letter says less, so of
// scripts such as Thai and Khmer it takes three.
const (
	characterGram = 2
	letterGram    = 3
)

// gramOf returns how many neighbours make a term with a character, in a segment of a
// kind; 0 if it is a part of a word. The segmenter knows no words in scripts that are
// written without spaces, and in those that are younger than its tables. Korean has
// spaces, but a word there has its particles and what it is composed of without any.
func gramOf(kind int, r rune) int {
	switch {
	case !inWord(r):
		return 0
	case kind == segment.Ideo, kind == segment.Kana,
		unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana):
		return characterGram
	case kind == segment.None:
		return letterGram
	}
	return 0
}

// splitWords returns the words of a text. Emoji and similar symbols are words,
// punctuation is not.
func splitWords(text string) []word {
	text = normalize.Text(cut(text, maxTextRunes))
	text = cut(strings.ReplaceAll(text, "_", " "), maxTextRunes) // folding can make it longer
	s := splitter{text: text}
	segments := segment.NewWordSegmenterDirect([]byte(text))
	for at := 0; segments.Segment(); at += len(segments.Bytes()) {
		s.segment(at, at+len(segments.Bytes()), segments.Type())
	}
	return s.words
}

type splitter struct {
	text  string
	words []word
	open  bool // the last word is a character, and nothing has come after it
}

// segment adds the words between two places: characters, and what is between them.
func (s *splitter) segment(from, to, kind int) {
	rest := from
	for i, r := range s.text[from:to] {
		at := from + i
		switch gram := gramOf(kind, r); {
		case unicode.IsMark(r) && s.open && rest == at: // it belongs to the letter before
			s.words[len(s.words)-1].text += string(r)
		case gram > 0:
			s.word(rest, at)
			s.words = append(s.words, word{text: string(r), gram: gram, joined: s.open})
			s.open = true
		default:
			continue
		}
		rest = at + utf8.RuneLen(r)
	}
	s.word(rest, to)
}

// word adds what is between two places: a word or a symbol.
func (s *splitter) word(from, to int) {
	if from == to {
		return
	}
	s.open = false
	text := s.text[from:to]
	parts := strings.FieldsFunc(text, func(r rune) bool { return !inWord(r) })
	if len(parts) == 0 {
		if r, _ := utf8.DecodeRuneInString(text); unicode.Is(unicode.So, r) {
			text = cut(text, maxTermRunes)
			s.words = append(s.words, word{text: text, term: text})
		}
		return
	}
	w := word{text: cut(strings.Join(parts, ""), maxTermRunes)}
	w.term = cut(w.text+signsIn(s.text[to:]), maxTermRunes)
	if len(parts) > 1 {
		w.parts = parts
	}
	s.words = append(s.words, w)
}

// signsIn returns the signs at the beginning of a text that belong to the word before, as in
// "c++" and "c#". A single sign between two words is punctuation.
func signsIn(textAfter string) string {
	rest := strings.TrimLeft(textAfter, "+#")
	signs := textAfter[:len(textAfter)-len(rest)]
	if next, _ := utf8.DecodeRuneInString(rest); len(signs) == 1 && inWord(next) {
		return ""
	}
	return signs
}

func inWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r)
}

func cut(s string, runes int) string {
	for i := range s {
		if runes == 0 {
			return s[:i]
		}
		runes--
	}
	return s
}

// termAt returns the term that begins with word i, and the first word after it. At the
// end of a run of characters it is made of fewer than gram.
func termAt(words []word, i int) (term string, end int) {
	if words[i].gram == 0 {
		return words[i].term, i + 1
	}
	for end = i + 1; end < len(words) && end < i+words[i].gram && words[end].joined; {
		end++
	}
	return cut(strings.Join(texts(words[i:end]), ""), maxTermRunes), end
}

// termsOf returns the terms of a text, each once and in order: its words and their
// parts. Where characters are words, each of them begins a term.
func termsOf(words []word) []string {
	seen := map[string]bool{"": true}
	var terms []string
	add := func(t string) {
		if t = cut(t, maxTermRunes); !seen[t] {
			seen[t] = true
			terms = append(terms, t)
		}
	}
	for i, w := range words {
		term, _ := termAt(words, i)
		add(term)
		if w.gram == 0 {
			add(w.text)
		}
		for _, p := range w.parts {
			add(p)
		}
	}
	return terms
}

// in reports whether a text in language l has what a clause asks for.
func (c clause) in(text fieldText, l language) bool {
	if c.phrase {
		return holds(text.words, c.term)
	}
	if slices.ContainsFunc(text.terms, func(t string) bool { return t == c.term || c.prefix && strings.HasPrefix(t, c.term) }) {
		return true
	}
	if c.exact {
		return false
	}
	stem := stemOf(c.term, l)
	return stem != "" && slices.ContainsFunc(text.terms, func(t string) bool { return stemOf(t, l) == stem })
}

// clausesOf returns the terms that a text must have to match the words of a query. The
// last term may be a beginning if lastIsPrefix is set. Characters that are too few for a
// term always may be, because a text has them in terms with what follows.
func clausesOf(words []word, lastIsPrefix bool) []clause {
	var all []clause
	covered := 0 // the words before are in a term
	for i, w := range words {
		term, end := termAt(words, i)
		if end <= covered {
			continue
		}
		covered = end
		all = append(all, clause{term: term, prefix: end-i < w.gram || end == len(words) && lastIsPrefix})
	}
	return slices.Compact(all)
}

// holds reports whether the words of a phrase occur in those of a text, in order and next
// to each other.
func holds(text, phrase string) bool { return strings.Contains(" "+text+" ", " "+phrase+" ") }

func texts(words []word) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w.text
	}
	return out
}
