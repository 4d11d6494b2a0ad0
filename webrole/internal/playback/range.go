package playback

import (
	"strconv"
	"strings"
)

// span is the half-open run of bytes [from, to).
type span struct{ from, to int64 }

// parseRange reads a Range header against a resource of size bytes (RFC 9110,
// section 14). partial is false when the header is absent, malformed, of another
// unit or asks for several ranges: a server may ignore those and answer with the
// whole. satisfiable is false when the range lies outside: 416.
//
// http.ServeContent is not used: it asks a seeker, which cannot know where the range ends
// and would have storage send the rest of the blob; it sends its header before storage has
// answered, so a failure could not be a problem any more; and its 416 has no code.
func parseRange(header string, size int64) (s span, partial, satisfiable bool) {
	whole := span{0, size}
	spec, isBytes := strings.CutPrefix(header, "bytes=")
	first, last, isRange := strings.Cut(strings.TrimSpace(spec), "-")
	from, hasFrom := digits(first)
	end, hasEnd := digits(last)
	switch {
	case !isBytes || !isRange || first != "" && !hasFrom || last != "" && !hasEnd, !hasFrom && !hasEnd, hasFrom && hasEnd && end < from:
		return whole, false, true
	case !hasFrom: // the last bytes
		s = span{max(0, size-end), size}
	case !hasEnd:
		s = span{from, size}
	default:
		s = span{from, min(end, size-1) + 1}
	}
	if s.from >= size {
		return whole, true, false
	}
	return s, true, true
}

// digits reads a number that may be larger than any file: those become the largest.
func digits(s string) (int64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 1<<63 - 1, true
	}
	return n, true
}
