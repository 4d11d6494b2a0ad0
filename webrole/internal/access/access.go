// Package access authorizes requests, to the API, pages, playback and operations alike. The
// caller is an Identity, which an Authenticator finds out; what is requested is an
// Action, which rules.go tells of a route; and May decides. A fork that signs people in its
// own way brings another Authenticator. One that has other roles changes May and the table,
// and nothing else.
//
// Next: webrole/internal/access/rules.go, the table.
package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
)

// Role is what an identity is trusted with. Each may do what those before it may.
type Role string

// The roles, in order.
const (
	Viewer   Role = "viewer"   // watches
	Uploader Role = "uploader" // has videos of its own
	Operator Role = "operator" // all videos, the queues, the keys
)

// Roles are all of them, in order.
var Roles = []Role{Viewer, Uploader, Operator}

// Identity is the caller. The zero Identity may do nothing.
type Identity struct {
	Owner string // the owner of new videos; empty: none
	Role  Role
	Key   string // id of the API key that was shown, for the log; empty: another way

	SignedIn bool // in a browser, which can sign out
	SignsIn  bool // or could: where the request came in, people can

	Plays engine.ID // the only video that it may play, with a token of Links
	Until int64     // when that token ends, Unix seconds
}

// BuiltIn is every caller on loopback without configuration, and the holder of the token.
var BuiltIn = Identity{Owner: video.LocalOwner, Role: Operator}

// Anonymous is a caller without credentials, where that is allowed.
var Anonymous = Identity{Role: Viewer}

func (caller Identity) is(least Role) bool {
	return slices.Index(Roles, caller.Role) >= slices.Index(Roles, least)
}

// Authenticator identifies the sender of a request. It returns ErrUnknown when it does not
// know, and another error when it can't tell now.
type Authenticator interface {
	Authenticate(r *http.Request) (Identity, error)
}

// People is an Authenticator of people, who sign in at an address of ours.
type People interface {
	Authenticator
	SignInPath() string
}

// Action is what a caller wants to do.
type Action int

// The actions. The zero Action is none, and is never allowed.
const (
	_       Action = iota
	Anyone         // also who was not identified: health and the sign-in
	Look           // pages without data, lists and searches, which hold public videos only
	See            // one video, with all that belongs to it
	Make           // have something made of a video
	Change         // edit, fill or process a video
	Remove         // delete a video: operators also one that they do not see
	Create         // announce a video, which will be one's own
	Hurry          // priority high: before the work of others
	Operate        // what has no owner: queues, workers, poison, keys, metrics, faults
)

// May reports whether the caller may do it. v is the video of See, Make, Change and Remove. A role,
// visibility or state that this release does not know allows the least.
func May(caller Identity, do Action, v video.Video) bool {
	owns := caller.Owner != "" && caller.Owner == v.Owner
	there := !v.State.Gone()
	sees := there && (caller.is(Viewer) && (v.Visibility.Linked() || owns) || caller.is(Operator))
	if caller.Plays != "" {
		return there && do == See && caller.Plays == v.ID
	}
	switch do {
	case Anyone:
		return true
	case Look:
		return caller.is(Viewer)
	case See:
		return sees
	case Make:
		return sees && caller.is(Uploader)
	case Change, Remove:
		return owns && caller.is(Uploader) || caller.is(Operator)
	case Create:
		return caller.is(Uploader)
	case Hurry, Operate:
		return caller.is(Operator)
	}
	return false
}

type identityKey struct{}

// IdentityOf returns the caller: the zero Identity when it was not identified.
func IdentityOf(ctx context.Context) Identity {
	caller, _ := ctx.Value(identityKey{}).(Identity)
	return caller
}

// Open admits every request as BuiltIn. It is for loopback only.
type Open struct{}

// Authenticate implements Authenticator.
func (Open) Authenticate(*http.Request) (Identity, error) { return BuiltIn, nil }

// Credentials knows the access token and API keys, as a bearer token or as the
// password of HTTP Basic, which browsers keep and send with everything a page loads.
// It is safe for concurrent use.
type Credentials struct {
	token     [sha256.Size]byte
	anonymous bool
	keys      Keyring
}

// Keyring finds the caller who shows an API key. ErrUnknown.
type Keyring func(ctx context.Context, text string) (Identity, error)

// NewCredentials returns an Authenticator for a token, which is not empty, and for
// keys, unless they are nil. With anonymous, a request without credentials is a viewer's.
func NewCredentials(token string, keys Keyring, anonymous bool) *Credentials {
	return &Credentials{token: sha256.Sum256([]byte(token)), anonymous: anonymous, keys: keys}
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
	if c.keys == nil {
		return Identity{}, ErrUnknown
	}
	return c.keys(r.Context(), given)
}
