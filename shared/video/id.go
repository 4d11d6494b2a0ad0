package video

import (
	"crypto/rand"
	"encoding/base32"
	"errors"
	"strings"
)

// ID names a video: 26 characters of [a-z2-7], 130 bits of which 128 are random.
//
// It is the PartitionKey of the video's rows. Being random it spreads writes
// over every partition, so no write path is append-only (paper row T3).
type ID string

const idLength = 26

var idAlphabet = base32.StdEncoding.WithPadding(base32.NoPadding)

// ErrInvalidID says that a string is not a video id.
var ErrInvalidID = errors.New("video id is not 26 characters of a-z and 2-7")

// NewID returns a random id.
func NewID() ID {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // crypto/rand.Read never fails since Go 1.24
	return ID(strings.ToLower(idAlphabet.EncodeToString(raw[:])))
}

// ParseID checks s, which may come from a URL or a message, or returns ErrInvalidID.
func ParseID(s string) (ID, error) {
	if len(s) != idLength {
		return "", ErrInvalidID
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return "", ErrInvalidID
		}
	}
	return ID(s), nil
}
