// Package apikeys stores the API keys of programs, and sessions that people ended by signing
// out: table "apikeys" of docs/data-model.md. A key is shown once, when it is made; the table
// has its hash. A revoked key keeps its row, so that operators still see it.
package apikeys

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// Table is the table's base name.
const Table = "apikeys"

const rowKey = "KEY"

// Lead begins every key, so that people and scanners for secrets know one.
const Lead = "key_"

// The forms of an id and of a key, where the 26 letters behind the id, of 5 bits each, are the
// secret.
var (
	idForm  = regexp.MustCompile(`^[a-z2-7]{12}$`)
	keyForm = regexp.MustCompile(`^` + Lead + `([a-z2-7]{12})_[a-z2-7]{26}$`)
)

// ErrNotFound says that there is no such key, or that it was revoked.
var ErrNotFound = errors.New("API key not found")

// Key is what is known of a key but its secret.
type Key struct {
	ID        string    `json:"id" row:"-"` // a-z and 2-7
	Name      string    `json:"name"`       // for people: what it is for
	Owner     string    `json:"owner"`      // whose videos it makes and changes
	Role      string    `json:"role"`       // see webrole/internal/access
	CreatedAt time.Time `json:"createdAt"`
	RevokedAt time.Time `json:"revokedAt,omitzero"` // zero: valid
}

// Store is safe for concurrent use.
type Store struct{ table *tablestore.Table }

// New returns the keys of an account.
func New(a *azstore.Account) *Store { return &Store{tablestore.New(a, Table)} }

// Create makes a key with the name, owner and role of k, and returns it with its
// text, which cannot be recovered later.
func (s *Store) Create(ctx context.Context, k Key) (made Key, text string, err error) {
	k.ID = strings.ToLower(rand.Text())[:12]
	k.CreatedAt, k.RevokedAt = time.Now().UTC().Truncate(time.Millisecond), time.Time{}
	text = Lead + k.ID + "_" + strings.ToLower(rand.Text())
	props := tablestore.Props(k)
	props["Hash"] = hash(text)
	if _, err = s.table.Insert(ctx, tablestore.Entity{PartitionKey: k.ID, RowKey: rowKey, Props: props}); err != nil {
		return Key{}, "", err
	}
	return k, text, nil
}

// hash needs no salt and no slowness: the secret is 130 random bits.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Find returns the valid key with this text, or ErrNotFound: a point read.
func (s *Store) Find(ctx context.Context, text string) (Key, error) {
	parts := keyForm.FindStringSubmatch(text)
	if parts == nil {
		return Key{}, ErrNotFound
	}
	row, err := s.table.Get(ctx, parts[1], rowKey)
	if errors.Is(err, tablestore.ErrNotFound) {
		return Key{}, ErrNotFound
	}
	if err != nil {
		return Key{}, err
	}
	k, err := tablestore.Decode(ctx, s.table, row, readKey) // with an error it may be revoked
	if err != nil || subtle.ConstantTimeCompare([]byte(row.String("Hash")), []byte(hash(text))) != 1 || !k.RevokedAt.IsZero() {
		return Key{}, ErrNotFound
	}
	return k, nil
}

// List returns keys, valid and revoked, in no order that means anything: a scan, for
// operators. limit is from 1 to 1000; next continues it and is empty at the end.
func (s *Store) List(ctx context.Context, limit int, token string) (keys []Key, next string, err error) {
	query := tablestore.Query{Class: tablestore.Scan, Filter: "RowKey eq '" + rowKey + "'", PageSize: int32(limit), Read: tablestore.Into(&keys, readKey)}
	_, next, err = s.table.Page(ctx, query, token)
	return keys, next, err
}

// Revoke ends a key for good. Safe to repeat; the first time counts.
func (s *Store) Revoke(ctx context.Context, id string) error {
	if !idForm.MatchString(id) {
		return ErrNotFound
	}
	row, err := s.table.Get(ctx, id, rowKey)
	if err == nil && row.Time("RevokedAt").IsZero() {
		revoked := tablestore.Entity{PartitionKey: id, RowKey: rowKey, Props: map[string]any{"RevokedAt": time.Now().UTC().Truncate(time.Millisecond)}}
		_, err = s.table.Merge(ctx, revoked, tablestore.AnyETag)
	}
	if errors.Is(err, tablestore.ErrNotFound) {
		return ErrNotFound
	}
	return err
}

func readKey(row tablestore.Entity) (Key, error) {
	if !idForm.MatchString(row.PartitionKey) {
		return Key{}, errors.New("its partition is no id of a key")
	}
	k := Key{ID: row.PartitionKey}
	return k, row.Struct(&k)
}

const signedOut = "SIGNEDOUT"

// SignOut ends a session for every copy of its cookie. session is the id in the cookie;
// until is when the cookie ends by itself. Safe to repeat.
func (s *Store) SignOut(ctx context.Context, session string, until time.Time) error {
	_, err := s.table.Upsert(ctx, tablestore.Entity{PartitionKey: session, RowKey: signedOut, Props: map[string]any{"Until": until.UTC()}})
	return err
}

// SignedOut reports whether a session was ended: a point read.
func (s *Store) SignedOut(ctx context.Context, session string) (bool, error) {
	_, err := s.table.Get(ctx, session, signedOut)
	return err == nil, tablestore.IgnoreNotFound(err)
}

// ForgetSessions removes the notes of sessions that would have ended before now, and
// returns how many. It scans the table. Safe to repeat.
func (s *Store) ForgetSessions(ctx context.Context, now time.Time) (removed int, _ error) {
	return s.table.Clear(ctx, tablestore.Query{
		Class: tablestore.Scan, Filter: "RowKey eq '" + signedOut + "' and Until le datetime'" + now.UTC().Format(time.RFC3339Nano) + "'",
	})
}
