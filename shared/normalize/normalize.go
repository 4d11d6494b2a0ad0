// Package normalize makes texts comparable the way people compare them: "CAFÉ" and
// "café", full-width and half-width, ligatures and letters, digits of any script are
// the same. Title keys (shared/catalog) and search terms (shared/searchindex) are folded here,
// so that both agree.
package normalize

import (
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Text returns s without case, accents, compatibility forms and invisible
// characters, with digits from 0 to 9, in NFKC. Bytes that are not UTF-8 are dropped. Folding twice is
// folding once. Text does not change the order or number of words.
func Text(s string) string {
	s = norm.NFKD.String(strings.ToValidUTF8(s, ""))
	s = strings.ToLower(cases.Fold().String(s)) // Fold alone swaps the cases of Cherokee
	s = letters.Replace(s)
	// Case folding can bring back an accent (ᾳ), so accents go last.
	return norm.NFKC.String(dropAccents(norm.NFKD.String(s)))
}

// dropAccents expects a decomposed text.
func dropAccents(s string) string {
	var before rune
	return strings.Map(func(r rune) rune {
		if r == breve && before == 'и' { // й is a letter, no и with an accent
			before = r
			return r
		}
		if r = keep(r); r >= 0 {
			before = r
		}
		return r
	}, s)
}

const breve = 0x0306

// letters that no Unicode decomposition takes apart, and the apostrophes that
// keyboards and phones put in the place of '.
var letters = strings.NewReplacer(
	"æ", "ae", "œ", "oe", "ø", "o", "đ", "d", "ð", "d", "ħ", "h", "ı", "i",
	"ł", "l", "þ", "th", "ŧ", "t", "’", "'", "‘", "'", "ʼ", "'", "＇", "'",
)

// keep drops the accents of the Latin, Greek and Cyrillic scripts, and what
// cannot be seen, and writes digits as 0 to 9. Marks of other scripts stay: there they are vowels, or the
// difference between か and が.
func keep(r rune) rune {
	switch {
	case 0x0300 <= r && r <= 0x036F, // combining diacritical marks
		0x1AB0 <= r && r <= 0x1AFF, // extended
		0x1DC0 <= r && r <= 0x1DFF, // supplement
		0x20D0 <= r && r <= 0x20FF, // for symbols
		0xFE00 <= r && r <= 0xFE0F, // variation selectors
		unicode.Is(unicode.Cf, r):
		return -1
	}
	return digit(r)
}

// digit writes the decimal digits of every script as 0 to 9. Unicode has them in runs,
// from zero to nine.
func digit(r rune) rune {
	if r <= unicode.MaxASCII || !unicode.Is(unicode.Nd, r) {
		return r
	}
	before := rune(0)
	for unicode.Is(unicode.Nd, r-before-1) {
		before++
	}
	return '0' + before%10
}
