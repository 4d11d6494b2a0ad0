package engine

import (
	"crypto/rand"
	"errors"
	"regexp"
	"strings"
)

// ID names a subject: 26 characters of [a-z2-7], 130 random bits.
//
// It is the PartitionKey of the subject's rows. Being random it spreads writes
// over every partition, so no write path is append-only (paper row T3).
type ID string

var idPattern = regexp.MustCompile(`^[a-z2-7]{26}$`)

// ErrInvalidID says that a string is not an id.
var ErrInvalidID = errors.New("id is not 26 characters of a-z and 2-7")

// NewID returns a random id.
func NewID() ID { return ID(strings.ToLower(rand.Text())) }

// ParseID checks s, which may come from a URL or a message, or returns ErrInvalidID.
func ParseID(s string) (ID, error) {
	if !idPattern.MatchString(s) {
		return "", ErrInvalidID
	}
	return ID(s), nil
}

// Prefix is the start of the name of every blob of a subject, in every container:
// deleting a subject is deleting its prefix.
func Prefix(id ID) string { return string(id) + "/" }
