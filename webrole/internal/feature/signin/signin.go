// Package signin lets people sign in at an OpenID Connect issuer.
package signin

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/gin-gonic/gin"
	"github.com/gorilla/securecookie"
	"golang.org/x/oauth2"

	"github.com/cutroom/cutroom/shared/apikeys"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/recent"
)

const (
	beginPath    = "/auth/signin"
	callbackPath = "/auth/callback"
	signOutPath  = "/auth/signout"
)

// The cookies. The names' beginning makes browsers insist on Secure, on Path=/ and on
// this very host.
const (
	sessionCookie = "__Host-session"
	signInCookie  = "__Host-signin"
)

const (
	sessionLife = 12 * time.Hour
	signInLife  = 10 * time.Minute // from the redirect to the way back
	issuerTime  = 5 * time.Second  // for one request to the issuer
	maxNext     = 1024             // characters; cookies are short
)

var issuerAway = problem.Code{Name: "issuer_unavailable", Status: http.StatusServiceUnavailable}

// OIDC says where people sign in. The zero value has no sign-in.
type OIDC struct {
	Issuer       string
	ClientID     string
	ClientSecret string      // empty: a public client, which PKCE protects
	URL          string      // where browsers see us, such as https://video.example.org
	Role         access.Role // of users to whom the issuer gives none of ours
	RoleClaim    string      // name of the claim that has roles, a text or a list
	Keys         []string    // the first signs cookies, all are taken: keys rotate
}

// SignIn lets people sign in at an OpenID Connect issuer, with PKCE, state and nonce,
// and knows them by a signed cookie afterwards, until they sign out. Requests with other
// credentials, or none, go to the next access.Authenticator.
type SignIn struct {
	config OIDC
	next   access.Authenticator
	ended  *apikeys.Store
	codecs map[string][]securecookie.Codec // by cookie
	client *http.Client
	issuer *recent.Cache[string, *oidc.Provider] // what it can do, which it is asked once
}

// newSignIn returns the sign-in of a configuration that is complete.
func newSignIn(config OIDC, ended *apikeys.Store) *SignIn {
	s := &SignIn{
		config: config, ended: ended,
		client: &http.Client{Timeout: issuerTime}, codecs: map[string][]securecookie.Codec{},
	}
	s.issuer = recent.New(1, func(ctx context.Context, issuer string) (*oidc.Provider, error) {
		return oidc.NewProvider(oidc.ClientContext(ctx, s.client), issuer)
	})
	for name, life := range map[string]time.Duration{sessionCookie: sessionLife, signInCookie: signInLife} {
		for _, key := range config.Keys {
			hash := sha256.Sum256([]byte(name + "\x00" + key))
			block := sha256.Sum256([]byte("block\x00" + name + "\x00" + key))
			codec := securecookie.New(hash[:], block[:])
			codec.MaxAge(int(life / time.Second)).SetSerializer(securecookie.JSONEncoder{})
			s.codecs[name] = append(s.codecs[name], codec)
		}
	}
	return s
}

type session struct {
	ID    string      `json:"i"`
	Owner string      `json:"o"`
	Role  access.Role `json:"r"`
}

// before asks next who sends a request that has no session.
func (s *SignIn) before(next access.Authenticator) access.People {
	s.next = next
	return s
}

// SignInPath implements access.People.
func (*SignIn) SignInPath() string { return beginPath }

// Authenticate implements access.Authenticator.
func (s *SignIn) Authenticate(r *http.Request) (access.Identity, error) {
	if r.Header.Get("Authorization") == "" {
		var known session
		if s.read(r, sessionCookie, &known) {
			over, err := s.ended.SignedOut(r.Context(), known.ID)
			if over || err != nil {
				return access.Identity{}, cmp.Or(err, access.ErrUnknown)
			}
			return access.Identity{Owner: known.Owner, Role: known.Role, SignedIn: true}, nil
		}
	}
	return s.next.Authenticate(r)
}

// signOut ends the session for every copy of its cookie.
func (s *SignIn) signOut(c *gin.Context) error {
	var known session
	if s.read(c.Request, sessionCookie, &known) {
		if err := s.ended.SignOut(c.Request.Context(), known.ID, time.Now().Add(sessionLife)); err != nil {
			return err
		}
	}
	setCookie(c, sessionCookie, "", -1)
	c.Redirect(http.StatusSeeOther, "/")
	return nil
}

// register adds the routes of the sign-in.
func (s *SignIn) register(r gin.IRoutes) {
	handle := func(do func(*gin.Context) error) gin.HandlerFunc {
		return func(c *gin.Context) {
			c.Header("Cache-Control", "no-store")
			if err := do(c); err != nil {
				problem.Abort(c, err)
			}
		}
	}
	r.GET(beginPath, handle(s.begin))
	r.GET(callbackPath, handle(s.end))
	r.POST(signOutPath, handle(s.signOut))
}

// attempt is what we remember of a sign-in while the user is at the issuer.
type attempt struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"` // of PKCE
	Next     string `json:"t"` // page to go to
}

func (s *SignIn) begin(c *gin.Context) error {
	next := cmp.Or(c.Query("next"), "/")
	if !ours(next) {
		return problem.New(problem.InvalidRedirect, "next is no page of this site.")
	}
	flow, _, err := s.flow(c.Request.Context())
	if err != nil {
		return err
	}
	a := attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Next: next}
	if err := s.write(c, signInCookie, signInLife, a); err != nil {
		return err
	}
	c.Redirect(http.StatusFound, flow.AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)))
	return nil
}

// ours reports whether a text is the path of a page here: "//host" and "/\host" are
// other hosts to browsers, which also drop some control characters.
func ours(next string) bool {
	return len(next) <= maxNext && strings.HasPrefix(next, "/") && !strings.HasPrefix(next, "//") &&
		!strings.ContainsFunc(next, func(r rune) bool { return r == '\\' || unicode.IsControl(r) })
}

func (s *SignIn) end(c *gin.Context) error {
	var a attempt
	begun := s.read(c.Request, signInCookie, &a)
	setCookie(c, signInCookie, "", -1) // whatever comes of it, it is used up
	if !begun || a.State == "" || c.Query("state") != a.State {
		return refuse(errors.New("the answer of the issuer belongs to no sign-in of this browser"))
	}
	if c.Query("code") == "" {
		return refuse(errors.New("the issuer refused"))
	}
	flow, provider, err := s.flow(c.Request.Context())
	if err != nil {
		return err
	}
	ctx := oidc.ClientContext(c.Request.Context(), s.client)
	tokens, err := flow.Exchange(ctx, c.Query("code"), oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return refuse(errors.New("the issuer does not take the code")) // the error may quote the answer
	}
	raw, _ := tokens.Extra("id_token").(string)
	known, err := s.verify(ctx, provider, raw, a.Nonce)
	if err != nil {
		return refuse(err)
	}
	if err := s.write(c, sessionCookie, sessionLife, known); err != nil {
		return err
	}
	c.Redirect(http.StatusFound, a.Next)
	return nil
}

// refuse says that the sign-in failed, and to the log why.
func refuse(reason error) error {
	return problem.New(problem.Unauthorized, "You could not be signed in. Try again.").Because(reason)
}

// verify checks an ID token: signature, algorithm (go-oidc takes those with a key pair alone,
// because what anyone can read signs nothing), issuer, audience, times (of which it gives "not
// before" five minutes), nonce, and that it was made for us.
func (s *SignIn) verify(ctx context.Context, provider *oidc.Provider, raw, nonce string) (session, error) {
	token, err := provider.Verifier(&oidc.Config{ClientID: s.config.ClientID}).Verify(ctx, raw)
	if err != nil {
		return session{}, fmt.Errorf("verify ID token: %w", err)
	}
	if nonce == "" || token.Nonce != nonce {
		return session{}, errors.New("the ID token was made for another sign-in")
	}
	claims := map[string]any{}
	if err := token.Claims(&claims); err != nil {
		return session{}, fmt.Errorf("read ID token: %w", err)
	}
	if party, named := claims["azp"]; len(token.Audience) > 1 && !named || named && party != s.config.ClientID {
		return session{}, errors.New("the ID token was made for another client")
	}
	if token.Subject == "" {
		return session{}, errors.New("the ID token names no user")
	}
	return session{ID: rand.Text(), Owner: ownerOf(token.Subject), Role: s.role(claims[s.config.RoleClaim])}, nil
}

var plainOwner = regexp.MustCompile(`^[A-Za-z0-9._@+-]{1,59}$`)

// ownerOf keeps people apart from the owners of API keys, which operators name.
func ownerOf(subject string) string {
	if plainOwner.MatchString(subject) {
		return "oidc:" + subject
	}
	sum := sha256.Sum256([]byte(subject))
	return "oidc:" + hex.EncodeToString(sum[:16])
}

// role is the highest of our roles in a claim, or the configured one when it has none of them.
func (s *SignIn) role(claim any) access.Role {
	var found access.Role
	values, isList := claim.([]any)
	if !isList {
		values = []any{claim}
	}
	for i, role := range access.Roles {
		if slices.Contains(values, any(string(role))) && i > slices.Index(access.Roles, found) {
			found = role
		}
	}
	return cmp.Or(found, s.config.Role)
}

// flow is the OAuth 2 client and its issuer. While that is away, a request waits for the
// question that is under way, and not for those of others before it.
func (s *SignIn) flow(ctx context.Context) (oauth2.Config, *oidc.Provider, error) {
	provider, err := s.issuer.Get(ctx, s.config.Issuer, func(*oidc.Provider, time.Duration) bool { return true })
	if err != nil {
		return oauth2.Config{}, nil, problem.New(issuerAway, "The place where people sign in does not answer. Try again soon.").Because(err)
	}
	return oauth2.Config{
		ClientID: s.config.ClientID, ClientSecret: s.config.ClientSecret, Endpoint: provider.Endpoint(),
		RedirectURL: s.config.URL + callbackPath, Scopes: []string{oidc.ScopeOpenID},
	}, provider, nil
}

func (s *SignIn) read(r *http.Request, name string, into any) bool {
	cookie, err := r.Cookie(name)
	return err == nil && securecookie.DecodeMulti(name, cookie.Value, into, s.codecs[name]...) == nil
}

func (s *SignIn) write(c *gin.Context, name string, life time.Duration, value any) error {
	text, err := securecookie.EncodeMulti(name, value, s.codecs[name]...)
	if err != nil {
		return fmt.Errorf("write cookie %s: %w", name, err)
	}
	setCookie(c, name, text, int(life/time.Second))
	return nil
}

// setCookie sets a cookie for some seconds; with -1 it goes. It is Lax because the way back
// from the issuer comes from another site; middleware.SameOrigin refuses changes from there.
func setCookie(c *gin.Context, name, text string, seconds int) {
	c.SetCookieData(&http.Cookie{Name: name, Value: text, Path: "/", MaxAge: seconds, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode})
}
