package tablestore_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		query, place := rapid.String().Draw(t, "query"), rapid.StringN(1, -1, -1).Draw(t, "place")
		token := tablestore.Token(query, place)
		if got, err := tablestore.Place(query, token); err != nil || got != place {
			t.Fatalf("place %q comes back as %q, %v", place, got, err)
		}
		if _, err := tablestore.Place(query+"x", token); !errors.Is(err, tablestore.ErrToken) {
			t.Fatalf("another query's token: %v, want ErrToken", err)
		}
		for i := range token {
			damaged := []byte(token)
			damaged[i] ^= 1
			if got, err := tablestore.Place(query, string(damaged)); err == nil && got != place {
				t.Fatalf("damaged token gives %q", got)
			}
		}
	})
}

// FuzzPlace: a token is taken when it is exactly what Token makes.
func FuzzPlace(f *testing.F) {
	f.Add("q=a", tablestore.Token("q=a", "0123"))
	f.Add("q=a", tablestore.Token("q=b", "0123"))
	f.Add("", "AAAA")
	f.Add("q=a", "_cAoKjHKbzVz\nMDEyMw") // a line end within
	f.Fuzz(func(t *testing.T, query, token string) {
		place, err := tablestore.Place(query, token)
		if err == nil && token != "" && tablestore.Token(query, place) != token {
			t.Errorf("%q is taken for %q, whose place %q has another token", token, query, place)
		}
	})
}
