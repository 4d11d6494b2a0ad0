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
	text = strings.Map(func(r rune) rune { // a byte that is no UTF-8 is U+FFFD already
		if r == '\t' || r == '\n' || r == '\r' || r >= ' ' && r != 0xFFFE && r != 0xFFFF {
			return r
		}
		return unicode.ReplacementChar
	}, text)
	used := 0
	for i, r := range text {
		if used += utf16.RuneLen(r); used >= units {
			return text[:i] + "…"
		}
	}
	return text
}
