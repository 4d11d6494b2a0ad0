package playback

import (
	"strings"
	"testing"
	"unicode"
)

// FuzzFilename: any title becomes the name of a file, and of no other place.
func FuzzFilename(f *testing.F) {
	for _, seed := range []string{"../../etc/passwd", "a\r\nX: y", "\u202Egpj.exe", ".", "CON:", strings.Repeat("é", 200), ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, title string) {
		name := filename(title)
		strange := func(r rune) bool { return unicode.IsControl(r) || strings.ContainsRune(`/\:*?"<>|`, r) }
		if name == "" || strings.ContainsFunc(name, strange) || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "-") || len([]rune(name)) > 80 {
			t.Errorf("%q becomes %q", title, name)
		}
	})
}
