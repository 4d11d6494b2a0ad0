package tablestore

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
)

// ErrToken says that a page token is not one of ours, or belongs to another query.
// Asking for the first page again is the remedy.
var ErrToken = errors.New("page token does not belong to this query")

const tokenSum = 9 // bytes of checksum, so that the text has no padding surprises

// Token makes the opaque page token of a place in the list that query names. A
// place is a RowKey, not a count, so rows that are added or removed before it
// do not move it.
func Token(query, place string) string {
	sum := tokenChecksum(query, place)
	return base64.RawURLEncoding.EncodeToString(append(sum, place...))
}

// Place reads a token that Token made for the same query, or returns
// ErrToken. The empty token is the empty place: the beginning.
//
// The checksum catches mistakes: a damaged token, or another query's. It is no
// secret, so the caller checks the form of the place too, and a place must
// never give access to anything by itself.
func Place(query, token string) (string, error) {
	if token == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) < tokenSum {
		return "", fmt.Errorf("reading token: %w", ErrToken)
	}
	place := string(raw[tokenSum:])
	// The whole text is compared: the decoder skips line ends.
	if Token(query, place) != token {
		return "", fmt.Errorf("comparing token: %w", ErrToken)
	}
	return place, nil
}

func tokenChecksum(query, place string) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(query), query, place))
	return sum[:tokenSum]
}
