package tablestore

import (
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

// FuzzEscapeKey: any text becomes a part of a key that the service takes, that holds no
// separator, and from which the text comes back.
func FuzzEscapeKey(f *testing.F) {
	for _, seed := range []string{"AC/DC", "a__b", "_", "!5F", "\x00\u202e\U0001F600", "2011 New York City Marathon__Full", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key := EscapeKey(text)
		if strings.ContainsFunc(key, forbiddenInKey) || strings.Contains(key, Separator) || strings.HasPrefix(key, "_") || strings.HasSuffix(key, "_") {
			t.Errorf("%q becomes %q", text, key)
		}
		back, err := UnescapeKey(key)
		if want := norm.NFKC.String(strings.ToValidUTF8(text, "\uFFFD")); err != nil || back != want {
			t.Errorf("%q becomes %q and %q, %v; want %q", text, key, back, err, want)
		}
	})
}

// FuzzPageToken: a made-up token leads to no panic, and one that is taken is
// of this query.
func FuzzPageToken(f *testing.F) {
	q := Query{PartitionKey: "p", RowFrom: "a", RowTo: "b"}
	f.Add(Token(q.filter(), "p"+placeSeparator+"aa"))
	f.Add("AAAA")
	f.Add("eyJzIjoiIn0")
	f.Fuzz(func(t *testing.T, token string) {
		_, err := Place(q.filter(), token)
		if other := (Query{PartitionKey: "q"}); err == nil && token != "" {
			if _, err := Place(other.filter(), token); err == nil {
				t.Errorf("%q is taken by another query", token)
			}
		}
	})
}

// FuzzFilter: what a person types stays one literal of a filter, whatever quotes it has.
func FuzzFilter(f *testing.F) {
	f.Add("x' or PartitionKey ne '")
	f.Add("''")
	f.Fuzz(func(t *testing.T, text string) {
		quoted := Quote(text)
		inside := strings.TrimSuffix(strings.TrimPrefix(quoted, "'"), "'")
		if len(quoted) < 2 || strings.Contains(strings.ReplaceAll(inside, "''", ""), "'") || strings.ReplaceAll(inside, "''", "'") != text {
			t.Errorf("%q becomes %q", text, quoted)
		}
	})
}
