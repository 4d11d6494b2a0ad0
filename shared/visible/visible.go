// Package visible tells texts that people can see from those that deceive them.
package visible

import (
	"strings"
	"unicode"
)

// Is reports whether a text is shown as it is: it has something that can be seen, and no
// control characters other than those allowed, and none that turn the direction of what
// stands around it.
func Is(text, allowed string) bool {
	seen := false
	for _, r := range text {
		switch {
		case strings.ContainsRune(allowed, r):
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r) && !mark(r):
			return false
		default:
			seen = seen || unicode.IsGraphic(r) && !unicode.IsSpace(r)
		}
	}
	return seen
}

// mark reports whether a character tells its own direction and turns no other.
func mark(r rune) bool { return r == '\u061c' || r == '\u200e' || r == '\u200f' }
