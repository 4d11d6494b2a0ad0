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
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r) && !strings.ContainsRune(marks, r):
			return false
		default:
			seen = seen || unicode.IsGraphic(r) && !unicode.IsSpace(r)
		}
	}
	return seen
}

// marks tell their own direction and turn no other.
const marks = "\u061c\u200e\u200f"
