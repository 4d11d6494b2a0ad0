package searchindex

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/segment"

	"github.com/cutroom/cutroom/shared/fold"
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
	parts []string // "o'brien" is the word "obrien" with the parts "o" and "brien"

	// Chinese and Japanese have no spaces, so there every character is a word (cjk).
	// joined says that no space or punctuation is between it and the one before.
	cjk, joined bool
}

// splitWords returns the words of a text. Emoji and similar symbols are words,
// punctuation is not.
func splitWords(text string) []word {
	text = fold.Text(cut(text, maxTextRunes))
	text = cut(strings.ReplaceAll(text, "_", " "), maxTextRunes) // folding can make it longer
	var words []word
	joinable := false
	segments := segment.NewWordSegmenterDirect([]byte(text))
	for segments.Segment() {
		s := segments.Text()
		switch kind := segments.Type(); {
		case kind == segment.Ideo || kind == segment.Kana:
			for _, r := range s {
				if !inWord(r) {
					joinable = false
					continue
				}
				if unicode.IsMark(r) && len(words) > 0 && joinable { // a mark belongs to its letter
					words[len(words)-1].text += string(r)
					continue
				}
				words = append(words, word{text: string(r), cjk: true, joined: joinable})
				joinable = true
			}
			continue
		case kind == segment.Letter || kind == segment.Number:
			parts := strings.FieldsFunc(s, func(r rune) bool { return !inWord(r) })
			if len(parts) == 0 {
				break
			}
			w := word{text: cut(strings.Join(parts, ""), maxTermRunes)}
			if len(parts) > 1 {
				for _, p := range parts {
					w.parts = append(w.parts, cut(p, maxTermRunes))
				}
			}
			words = append(words, w)
		default:
			if r, _ := utf8.DecodeRuneInString(s); unicode.Is(unicode.So, r) {
				words = append(words, word{text: cut(s, maxTermRunes)})
			}
		}
		joinable = false
	}
	return words
}

func inWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r)
}

// cut returns the first runes of s.
func cut(s string, runes int) string {
	for i := range s {
		if runes == 0 {
			return s[:i]
		}
		runes--
	}
	return s
}

// termsOf returns the terms of a text, each once and in order: its words and their
// parts. For Chinese and Japanese these are all pairs of neighbouring characters and
// the last character of each run, so that every character begins a term.
func termsOf(words []word) []string {
	seen := make(map[string]bool)
	var terms []string
	add := func(t string) {
		if t != "" && !seen[t] {
			seen[t] = true
			terms = append(terms, t)
		}
	}
	for i, w := range words {
		if w.cjk && i+1 < len(words) && words[i+1].joined {
			add(w.text + words[i+1].text)
			continue
		}
		add(w.text)
		for _, p := range w.parts {
			add(p)
		}
	}
	return terms
}

// wanted is one term that a query asks for.
type wanted struct {
	term   string
	prefix bool // a term that begins with it counts too
	exact  bool // other forms of the word do not count
}

// in reports whether a text in language l, given by its terms, has what is wanted.
func (w wanted) in(terms []string, l language) bool {
	if slices.ContainsFunc(terms, func(t string) bool { return t == w.term || w.prefix && strings.HasPrefix(t, w.term) }) {
		return true
	}
	if w.exact {
		return false
	}
	stem := stemOf(w.term, l)
	return stem != "" && slices.ContainsFunc(terms, func(t string) bool { return stemOf(t, l) == stem })
}

// wantedOf returns the terms that a text must have to match the words of a query. The
// last word may be a beginning if lastIsPrefix is set. A single Chinese or Japanese
// character always may be, because a text has it in pairs with the following one.
func wantedOf(words []word, lastIsPrefix bool) []wanted {
	var all []wanted
	for i, w := range words {
		last := i == len(words)-1
		next := !last && words[i+1].joined
		switch {
		case w.cjk && next:
			all = append(all, wanted{term: w.text + words[i+1].text})
		case w.cjk && w.joined: // the end of a run: inside the pair before
		case w.cjk:
			all = append(all, wanted{term: w.text, prefix: true})
		default:
			all = append(all, wanted{term: w.text, prefix: last && lastIsPrefix})
		}
	}
	return slices.Compact(all)
}

// holds reports whether the phrase occurs in the words, in order and next to
// each other.
func holds(words, phrase []string) bool {
	for i := 0; i+len(phrase) <= len(words); i++ {
		if slices.Equal(words[i:i+len(phrase)], phrase) {
			return true
		}
	}
	return len(phrase) == 0
}

func texts(words []word) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w.text
	}
	return out
}
