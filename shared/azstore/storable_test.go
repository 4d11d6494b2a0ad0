package azstore_test

import (
	"encoding/json"
	"encoding/xml"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/cutroom/cutroom/shared/azstore"
)

// Any bytes become a text that a row, a message and JSON give back as it is.
func TestAnyTextIsStorable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw := string(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		units := rapid.IntRange(2, 400).Draw(t, "units")
		text := azstore.Storable(raw, units)
		if !utf8.ValidString(text) || len(utf16.Encode([]rune(text))) > units {
			t.Fatalf("%q is not valid, or longer than %d", text, units)
		}
		if again := azstore.Storable(text, units+1); again != text {
			t.Fatalf("%q became %q", text, again)
		}
		var back string
		if data, err := xml.Marshal(text); err != nil || xml.Unmarshal(data, &back) != nil || back != text {
			t.Fatalf("XML gives back %q for %q: %v", back, text, err)
		}
		if data, err := json.Marshal(text); err != nil || json.Unmarshal(data, &back) != nil || back != text {
			t.Fatalf("JSON gives back %q for %q: %v", back, text, err)
		}
	})
}

func TestStorable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain":          "plain",
		"caf\xe9":        "caf\uFFFD",
		"a\x00b":         "a\uFFFDb",
		"🎬🎬🎬🎬🎬🎬":         "🎬🎬🎬🎬…",
		"1234567890":     "123456789…",
		"two\nlines\r\n": "two\nlines…",
		"\uFFFE":         "\uFFFD",
	} {
		if got := azstore.Storable(text, 10); got != want {
			t.Errorf("Text(%q) = %q, want %q", text, got, want)
		}
	}
	if long := strings.Repeat("x", 100_000); len(utf16.Encode([]rune(azstore.Storable(long, 32_000)))) > 32_000 {
		t.Error("it is too long")
	}
}
