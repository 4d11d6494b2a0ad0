package signin

import (
	"net/url"
	"testing"
)

// FuzzNext: where a browser is sent after the sign-in is on this site, as browsers read
// it, which take a backslash for a slash and drop tabs and line ends.
func FuzzNext(f *testing.F) {
	for _, seed := range []string{"/", "/upload?a=b", "//evil.example", "/\\evil.example", "/\t/evil.example", "https://evil.example", "/%2f/evil.example"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, next string) {
		if !ours(next) {
			return
		}
		if to, err := url.Parse("https://us.example" + next); err == nil && to.Host != "us.example" {
			t.Errorf("%q leads to %s", next, to.Host)
		}
		if len(next) > 1 && (next[1] == '/' || next[1] == '\\' || next[1] < ' ') {
			t.Errorf("%q is taken", next)
		}
	})
}
