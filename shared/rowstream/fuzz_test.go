package rowstream

import "testing"

// FuzzPlace: a token is taken when it is exactly what Token makes.
func FuzzPlace(f *testing.F) {
	f.Add("q=a", Token("q=a", "0123"))
	f.Add("q=a", Token("q=b", "0123"))
	f.Add("", "AAAA")
	f.Add("q=a", "_cAoKjHKbzVz\nMDEyMw") // a line end within
	f.Fuzz(func(t *testing.T, query, token string) {
		place, err := Place(query, token)
		if err == nil && token != "" && Token(query, place) != token {
			t.Errorf("%q is taken for %q, whose place %q has another token", token, query, place)
		}
	})
}
