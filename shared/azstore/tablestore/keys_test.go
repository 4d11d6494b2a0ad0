package tablestore_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

func TestEscapeKey(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":              "",
		"plain text":    "plain text",
		"a_b":           "a_b",
		"a__b":          "a_!5Fb",
		"_a_":           "!5Fa!5F",
		"AC/DC":         "AC!2FDC",
		`\#?'%+!`:       "!5C!23!3F!27!25!2B!21",
		"tab\tdel\x7f":  "tab!09del!7F",
		"é":             "é",
		"e\u0301":       "é", // NFKC
		"ﬁlm":           "film",
		"🎬":             "!u01F3AC",
		"bad\xffutf8":   "bad\uFFFDutf8",
		"\u0085\uFFFE":  "!85!u00FFFE",
		"2011 New York": "2011 New York",
	} {
		if got := tablestore.EscapeKey(in); got != want {
			t.Errorf("EscapeKey(%q) = %q, want %q", in, got, want)
		}
	}
	for _, bad := range []string{"!", "!2", "!zz", "!u1234", "!uFFFFFF"} {
		if got, err := tablestore.UnescapeKey(bad); err == nil {
			t.Errorf("UnescapeKey(%q) = %q, want an error", bad, got)
		}
	}
}

// S1, T6: a key joined from several values. Any text is a field, comes back, and
// never looks like a separator.
func TestKeyCodecIsFaithful(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		fields := rapid.SliceOfN(rapid.String(), 1, 4).Draw(t, "fields")
		key := tablestore.Join(fields...)
		if strings.ContainsAny(key, "/\\#?'%+") || !utf8.ValidString(key) {
			t.Fatalf("key %q is not allowed", key)
		}
		parts := strings.Split(key, tablestore.Separator)
		if len(parts) != len(fields) {
			t.Fatalf("%q came back as %q", fields, parts)
		}
		for i, part := range parts {
			got, err := tablestore.UnescapeKey(part)
			if want := norm.NFKC.String(strings.ToValidUTF8(fields[i], "\uFFFD")); err != nil || got != want {
				t.Fatalf("field %q came back as %q: %v", want, got, err)
			}
		}
	})
}

// T1: a number in a key has a fixed width.
func TestPad(t *testing.T) {
	t.Parallel()
	if got := tablestore.Pad(2, 3); got != "002" {
		t.Errorf("Pad(2, 3) = %q", got)
	}
	for _, n := range []int64{-1, 1000} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Pad(%d, 3) did not panic", n)
				}
			}()
			tablestore.Pad(n, 3)
		}()
	}
}

func TestInvertedTimeSortsNewestFirst(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		moment := rapid.Int64Range(0, 9_999_999_999_999)
		a, b := moment.Draw(t, "a"), moment.Draw(t, "b")
		ka, kb := tablestore.InvertedTime(time.UnixMilli(a)), tablestore.InvertedTime(time.UnixMilli(b))
		if len(ka) != 13 || (a < b) != (ka > kb) {
			t.Fatalf("%d → %s, %d → %s", a, ka, b, kb)
		}
		if back, err := tablestore.ParseInvertedTime(ka); err != nil || back.UnixMilli() != a {
			t.Fatalf("%d → %s → %v, %v", a, ka, back, err)
		}
	})
	if _, err := tablestore.ParseInvertedTime("12"); err == nil {
		t.Error("a short text is no inverted time")
	}
}

// [prefix, PrefixEnd) holds exactly the keys with that prefix.
func TestPrefixEnd(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{
		"vid":        "vie",
		"BIB:01234_": "BIB:01234`",
		"a.":         "a0", // not "a/", which no key holds
		"a\uD7FF":    "a\uE000",
		"a\uFFFD":    "b",
		"":           "",
	} {
		if got := tablestore.PrefixEnd(prefix); got != want {
			t.Errorf("PrefixEnd(%q) = %q, want %q", prefix, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.Map(rapid.String(), tablestore.EscapeKey)
		prefix, other := key.Draw(t, "prefix"), key.Draw(t, "other")
		end := tablestore.PrefixEnd(prefix)
		for _, k := range []string{other, prefix + other} {
			inside := k >= prefix && (end == "" || k < end)
			if inside != strings.HasPrefix(k, prefix) {
				t.Fatalf("key %q, range [%q, %q)", k, prefix, end)
			}
		}
	})
}
