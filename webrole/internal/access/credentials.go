package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/cutroom/cutroom/shared/apikeys"
)

// Open lets everybody in as BuiltIn. It is for loopback, and for nobody else.
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
	known     *lru.Cache[[sha256.Size]byte, known] // by hash of the key: no key is kept in memory
}

type known struct {
	who   Identity
	since time.Time
}

// NewCredentials returns an Authenticator for a token, which is not empty, and for
// keys. With anonymous, who shows nothing is a viewer.
func NewCredentials(token string, keys *apikeys.Store, anonymous bool) *Credentials {
	remembered, err := lru.New[[sha256.Size]byte, known](maxKnown)
	if err != nil {
		panic(err) // maxKnown is not positive
	}
	return &Credentials{token: sha256.Sum256([]byte(token)), anonymous: anonymous, keys: keys, known: remembered}
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
	if k, ok := c.known.Get(sum); ok && time.Since(k.since) < keyLife {
		return k.who, nil
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
	c.known.Add(sum, known{who, now})
	return who, nil
}
