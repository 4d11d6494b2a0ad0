package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/apikeys"
	"github.com/cutroom/cutroom/webrole/internal/recent"
)

// Open admits every request as BuiltIn. It is for loopback only.
type Open struct{}

// Authenticate implements Authenticator.
func (Open) Authenticate(*http.Request) (Identity, error) { return BuiltIn, nil }

const (
	// keyLife is how long a key is trusted after it was read: so long a revoked one
	// still works.
	keyLife  = 5 * time.Second
	maxKnown = 4096 // keys that are remembered
)

// Credentials knows the access token and API keys, as a bearer token or as the
// password of HTTP Basic, which browsers keep and send with everything a page loads.
// It is safe for concurrent use.
type Credentials struct {
	token     [sha256.Size]byte
	anonymous bool
	keys      *apikeys.Store
	known     *recent.Memory[[sha256.Size]byte, Identity] // by hash of the key: no key is kept in memory
}

// NewCredentials returns an Authenticator for a token, which is not empty, and for
// keys. With anonymous, a request without credentials is a viewer's.
func NewCredentials(token string, keys *apikeys.Store, anonymous bool) *Credentials {
	known := recent.NewMemory[[sha256.Size]byte, Identity](maxKnown, keyLife)
	return &Credentials{token: sha256.Sum256([]byte(token)), anonymous: anonymous, keys: keys, known: known}
}

// Authenticate implements Authenticator.
func (c *Credentials) Authenticate(r *http.Request) (Identity, error) {
	if c.anonymous && r.Header.Get("Authorization") == "" {
		return Anonymous, nil
	}
	_, given, _ := r.BasicAuth()
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		given = bearer
	}
	sum := sha256.Sum256([]byte(given))
	if subtle.ConstantTimeCompare(c.token[:], sum[:]) == 1 {
		return BuiltIn, nil
	}
	if who, ok := c.known.Get(sum); ok {
		return who, nil
	}
	now := time.Now()
	key, err := c.keys.Find(r.Context(), given)
	if errors.Is(err, apikeys.ErrNotFound) {
		return Identity{}, ErrUnknown
	}
	if err != nil {
		return Identity{}, err
	}
	who := Identity{Owner: key.Owner, Role: Role(key.Role), Key: key.ID}
	c.known.Add(sum, who, now)
	return who, nil
}
