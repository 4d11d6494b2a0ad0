package tablestore

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"
)

// Separator stands between the fields of a composed key, as in the paper's
// "2011 New York City Marathon__Full". EscapeKey keeps it out of fields.
const Separator = "__"

// forbiddenInKey lists the characters that the service refuses
// (https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model)
// and four more: the quote, which the SDK doubles in stored keys; percent and
// plus, which old clients decode twice; and all outside of the Basic
// Multilingual Plane, which the service sorts by surrogates and Go does not.
func forbiddenInKey(r rune) bool {
	switch r {
	case '/', '\\', '#', '?', '\'', '%', '+':
		return true
	}
	return r < 0x20 || r >= 0x7F && r <= 0x9F || r >= 0xFFFE
}

// EscapeKey makes any text a field of a key. It normalises to NFKC and writes '!' and
// hexadecimal digits for '!' itself, for characters that a key must not hold, and
// for underscores that could be read as a Separator.
//
//	EscapeKey("AC/DC")  "AC!2FDC"
//	EscapeKey("a_b")    "a_b"
//	EscapeKey("a__b")   "a_!5Fb"
func EscapeKey(s string) string {
	s = norm.NFKC.String(strings.ToValidUTF8(s, "\uFFFD"))
	var b strings.Builder
	b.Grow(len(s))
	for i, r := range s {
		switch {
		case r == '_' && (i == 0 || i == len(s)-1 || s[i-1] == '_'):
			b.WriteString("!5F")
		case r > 0xFF && forbiddenInKey(r):
			fmt.Fprintf(&b, "!u%06X", r)
		case r == '!' || forbiddenInKey(r):
			fmt.Fprintf(&b, "!%02X", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// escaped is what EscapeKey writes for a character.
var escaped = regexp.MustCompile("!(?:[0-9A-F]{2}|u(?:0[0-9A-F]|10)[0-9A-F]{4})")

// UnescapeKey undoes EscapeKey, up to normalisation. Other text is an error.
func UnescapeKey(s string) (string, error) {
	if strings.Contains(escaped.ReplaceAllString(s, ""), "!") {
		return "", fmt.Errorf("key %q: an exclamation mark without the digits of a character", s)
	}
	return escaped.ReplaceAllStringFunc(s, func(code string) string {
		r, _ := strconv.ParseUint(strings.TrimLeft(code, "!u"), 16, 32) // the pattern has seen the digits
		return string(rune(r))
	}), nil
}

// Join composes a key of fields, which it escapes, so that different fields give
// different keys (paper rows S1, T6).
func Join(fields ...string) string {
	escaped := make([]string, len(fields))
	for i, f := range fields {
		escaped[i] = EscapeKey(f)
	}
	return strings.Join(escaped, Separator)
}

// Shard spreads texts evenly over n suffixes of a key, from 0: the suffix of a text is always
// the same one (paper row S3).
func Shard(text string, n int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // never fails
	return int(h.Sum32() % uint32(n))
}

// Suffixes is how many suffixes a key needs that has up to peak entities of 1 KiB a second, for
// [Shard]; 1 means none (paper rows S2, S3).
func Suffixes(peak int) int {
	const comfortable = 2000 / 2 // half of what the service gives a partition is kept for growth
	return peak/comfortable + 1
}

// Pad writes a number with leading zeros. Keys are ordered as text, in which "111"
// comes before "2" (paper row T1). Pad panics for a negative number and for one with more
// digits than width: its row would stand in the wrong place.
func Pad(n int64, width int) string {
	s := strconv.FormatInt(n, 10)
	if n < 0 || len(s) > width {
		panic(fmt.Sprintf("tablestore.Pad: %d does not fit %d digits", n, width))
	}
	return strings.Repeat("0", width-len(s)) + s
}

// maxUnixMilli is in the year 2286.
const maxUnixMilli = 9999999999999

// InvertedTime writes a time so that later times sort first: 13 digits.
func InvertedTime(t time.Time) string {
	ms := min(max(t.UnixMilli(), 0), maxUnixMilli)
	return Pad(maxUnixMilli-ms, 13)
}

// ParseInvertedTime undoes InvertedTime.
func ParseInvertedTime(s string) (time.Time, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || len(s) != 13 || n < 0 {
		return time.Time{}, fmt.Errorf("inverted time %q: want 13 digits", s)
	}
	return time.UnixMilli(maxUnixMilli - n).UTC(), nil
}

// PrefixEnd returns the smallest key after all keys that start with prefix. It is the
// end of a half-open range; "" means that the range is open.
func PrefixEnd(prefix string) string {
	runes := []rune(prefix)
	for i := len(runes) - 1; i >= 0; i-- {
		r := runes[i] + 1
		for r <= 0xFFFF && (forbiddenInKey(r) || r >= 0xD800 && r <= 0xDFFF) {
			r++ // no key holds it, so the next one bounds the same keys
		}
		if r < 0xFFFE {
			return string(runes[:i]) + string(r)
		}
	}
	return ""
}
