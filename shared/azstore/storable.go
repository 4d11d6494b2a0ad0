package azstore

import (
	"strings"
	"unicode"
	"unicode/utf16"
)

// Storable returns text as rows, messages and logs hold it: valid UTF-8, without characters that
// XML cannot carry, and at most units UTF-16 code units long, of which a string property
// of a table holds 32,768
// (https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model).
// What is not so is replaced by U+FFFD; what is cut off ends with "…".
//
// A record of a failure must not be able to fail: an error's text may come from a stranger's
// server, and a row or a message that refuses it is delivered for ever.
func Storable(text string, units int) string {
	var out strings.Builder
	used := 0
	for _, r := range text { // a byte that is no UTF-8 comes as U+FFFD
		if !carried(r) {
			r = unicode.ReplacementChar
		}
		if used += utf16.RuneLen(r); used >= units {
			out.WriteRune('…')
			break
		}
		out.WriteRune(r)
	}
	return out.String()
}

// carried reports whether XML 1.0 has the character.
func carried(r rune) bool {
	return r == '\t' || r == '\n' || r == '\r' || r >= ' ' && r != 0xFFFE && r != 0xFFFF
}
