package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

// issuer is an OpenID Connect issuer of the test's own.
type issuer struct {
	*httptest.Server
	t *testing.T

	mu    sync.Mutex
	key   *ecdsa.PrivateKey // the one that is published
	id    string
	asked url.Values // the parameters with which a browser was sent here
	used  map[string]bool
	// exchanges is how often a code was brought.
	exchanges int
	answer    func(claims map[string]any) string // the ID token
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{t: t, used: map[string]bool{}}
	i.rotate("first")
	routes := http.NewServeMux()
	i.Server = httptest.NewServer(routes)
	t.Cleanup(i.Close)
	routes.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"ES256", "HS256", "none"},
		})
	})
	routes.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{
			Key: i.key.Public(), KeyID: i.id, Algorithm: "ES256", Use: "sig",
		}}})
	})
	routes.HandleFunc("/token", i.token)
	return i
}

// rotate publishes another key instead of the present one.
func (i *issuer) rotate(id string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.key, i.id = key, id
}

// token changes a code for an ID token: once, for the holder of the verifier of PKCE.
func (i *issuer) token(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	asked, code := i.asked, r.FormValue("code")
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	user, password, _ := r.BasicAuth()
	good := base64.RawURLEncoding.EncodeToString(sum[:]) == asked.Get("code_challenge") && !i.used[code] &&
		user == "us" && password == "client-secret" && r.FormValue("redirect_uri") == asked.Get("redirect_uri")
	i.used[code] = true
	i.exchanges++
	i.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if !good {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
		return
	}
	now := time.Now()
	claims := map[string]any{
		"iss": i.URL, "aud": "us", "sub": "ann", "nonce": asked.Get("nonce"), "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "roles": []string{"uploader", "baker"},
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": i.answer(claims)})
}

// signed makes a token of claims.
func signed(t *testing.T, algorithm jose.SignatureAlgorithm, key any, id string, claims map[string]any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", id))
	if err != nil {
		t.Fatal(err)
	}
	made, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := made.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// guest is a browser without a head: it keeps cookies and follows nothing. (A jar of
// net/http keeps Secure cookies from an address without TLS.)
type guest struct {
	*server
	cookies map[string]string
}

func newGuest(s *server) *guest {
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &guest{s, map[string]string{}}
}

func (g *guest) visit(method, path string, body any, headers ...string) answer {
	g.t.Helper()
	req := g.request(method, g.public+path, body, headers...)
	for name, value := range g.cookies {
		req.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	a := g.send(req)
	for _, c := range a.Cookies() {
		if !strings.HasPrefix(c.Name, "__Host-") || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" {
			g.t.Errorf("cookie %v", c)
		}
		g.cookies[c.Name] = c.Value
		if c.MaxAge < 0 {
			delete(g.cookies, c.Name)
		}
	}
	return a
}

// leave is sent to the issuer and returns with what.
func (g *guest) leave(i *issuer, next string) (back string) {
	g.t.Helper()
	a := g.visit(http.MethodGet, "/auth/signin?next="+url.QueryEscape(next), nil)
	to, err := url.Parse(a.Header.Get("Location"))
	if err != nil || a.StatusCode != http.StatusFound || !strings.HasPrefix(to.String(), i.URL+"/authorize?") {
		g.t.Fatalf("sign-in leads to %d %q, %v", a.StatusCode, to, err)
	}
	asked := to.Query()
	if asked.Get("code_challenge_method") != "S256" || asked.Get("state") == "" || asked.Get("nonce") == "" || asked.Get("response_type") != "code" {
		g.t.Errorf("the issuer is asked %v", asked)
	}
	i.mu.Lock()
	i.asked = asked
	i.mu.Unlock()
	return "/auth/callback?" + url.Values{"code": {rand.Text()}, "state": {asked.Get("state")}}.Encode()
}

func signInSettings(i *issuer, keys string) map[string]string {
	return map[string]string{
		"WEBROLE_TOKEN": testToken, "WEBROLE_OIDC_ISSUER": i.URL, "WEBROLE_OIDC_CLIENT_ID": "us", "WEBROLE_OIDC_CLIENT_SECRET": "client-secret",
		"WEBROLE_URL": "http://127.0.0.1", "WEBROLE_SESSION_KEYS": keys,
	}
}

// TestSignInRefuses: ID tokens that must not sign anybody in.
func TestSignInRefuses(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(i.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	s := start(t, signInSettings(i, sessionKey))
	with := func(claim string, value any) func(map[string]any) string {
		return func(claims map[string]any) string {
			changed := maps.Clone(claims)
			changed[claim] = value
			if value == nil {
				delete(changed, claim)
			}
			return signed(t, jose.ES256, i.key, i.id, changed)
		}
	}
	by := func(algorithm jose.SignatureAlgorithm, key any) func(map[string]any) string {
		return func(claims map[string]any) string { return signed(t, algorithm, key, i.id, claims) }
	}
	unsigned := func(algorithm string) func(map[string]any) string {
		return func(claims map[string]any) string {
			head, payload := `{"alg":"`+algorithm+`","kid":"first"}`, must(json.Marshal(claims))
			return base64.RawURLEncoding.EncodeToString([]byte(head)) + "." + base64.RawURLEncoding.EncodeToString(payload) + "."
		}
	}
	earlier := rand.Text() // the nonce of a sign-in of yesterday
	for name, answer := range map[string]func(map[string]any) string{
		"another issuer": with("iss", "https://id.example.org"), "another audience": with("aud", "them"), "no audience": with("aud", nil),
		"two audiences and no party": with("aud", []string{"us", "them"}), "another party": with("azp", "them"),
		"expired": with("exp", time.Now().Add(-time.Minute).Unix()), "no expiry": with("exp", nil), "not yet valid": with("nbf", time.Now().Add(10*time.Minute).Unix()),
		"a replayed nonce": with("nonce", earlier), "no nonce": with("nonce", nil), "no subject": with("sub", nil),
		"algorithm none": unsigned("none"), "no signature": unsigned("ES256"),
		"HS256 with the public key": by(jose.HS256, public), "HS256 with the client's secret": by(jose.HS256, []byte("client-secret-of-thirty-two-bytes")),
		"another key": by(jose.ES256, stranger), "no token": func(map[string]any) string { return "" }, "nonsense": func(map[string]any) string { return "a.b.c" },
	} {
		g := newGuest(s)
		back := g.leave(i, "/")
		i.answer = answer
		g.visit(http.MethodGet, back, nil).want(t, 401, "unauthorized")
		if len(g.cookies) != 0 {
			t.Errorf("%s: signed in: %v", name, g.cookies)
		}
	}

	ahead := newGuest(s) // a clock that is a little fast keeps no user out
	i.answer = with("nbf", time.Now().Add(2*time.Minute).Unix())
	if a := ahead.visit(http.MethodGet, ahead.leave(i, "/"), nil); a.StatusCode != http.StatusFound {
		t.Errorf("a token of a clock that is two minutes fast: %d %s", a.StatusCode, a.body)
	}
	i.answer = by(jose.ES256, i.key)
	for name, spoil := range map[string]func(g *guest, back string) string{
		"another state":      func(_ *guest, back string) string { return back + "x" },
		"no state":           func(_ *guest, back string) string { return strings.Split(back, "&state")[0] },
		"another browser":    func(g *guest, back string) string { clear(g.cookies); return back },
		"a forged cookie":    func(g *guest, back string) string { g.cookies["__Host-signin"] += "x"; return back },
		"the issuer refuses": func(_ *guest, back string) string { return strings.Replace(back, "code=", "error=", 1) },
		"another sign-in's cookie": func(g *guest, back string) string {
			g.leave(i, "/")
			return back
		},
	} {
		g := newGuest(s)
		g.visit(http.MethodGet, spoil(g, g.leave(i, "/")), nil).want(t, 401, "unauthorized")
		if g.cookies["__Host-session"] != "" {
			t.Errorf("%s: signed in", name)
		}
	}
	for _, evil := range []string{"//evil.example", "https://evil.example", "/\\evil.example", "evil", "/a\r\nb", "/" + strings.Repeat("a", 2000)} {
		newGuest(s).visit(http.MethodGet, "/auth/signin?next="+url.QueryEscape(evil), nil).want(t, 400, "invalid_redirect")
	}
}

func must(text []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return text
}

// TestSignIn: people sign in, are known by a cookie, own what they make, and sign out.
func TestSignIn(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.answer = func(claims map[string]any) string { return signed(t, jose.ES256, i.key, i.id, claims) }
	s := start(t, signInSettings(i, sessionKey))
	g := newGuest(s)
	sent := g.visit(http.MethodGet, "/upload?a=b", nil, "Sec-Fetch-Mode", "navigate")
	if sent.StatusCode != http.StatusFound || sent.Header.Get("Location") != "/auth/signin?next=%2Fupload%3Fa%3Db" {
		t.Errorf("a page without a session: %d %q", sent.StatusCode, sent.Header.Get("Location"))
	}
	g.visit(http.MethodGet, "/embed/aaaaaaaaaaaaaaaaaaaaaaaaaa", nil, "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe").want(t, 401, "unauthorized")
	refused := g.visit(http.MethodGet, "/api/v1/videos", nil)
	refused.want(t, 401, "unauthorized")
	if strings.Contains(refused.Header.Get("WWW-Authenticate"), "Basic") {
		t.Error("browsers are made to ask for a password")
	}
	back := g.leave(i, "/upload")
	during := maps.Clone(g.cookies)
	if a := g.visit(http.MethodGet, back, nil); a.StatusCode != http.StatusFound || a.Header.Get("Location") != "/upload" {
		t.Fatalf("after the sign-in: %d %s", a.StatusCode, a.body)
	}
	replayed := &guest{s, during}
	replayed.visit(http.MethodGet, back, nil).want(t, 401, "unauthorized") // the issuer took the code before

	mine := decode[api.Video](t, g.visit(http.MethodPost, "/api/v1/videos", `{"title":"Mine","visibility":"private"}`), http.StatusCreated)
	rec, err := s.videos.Get(t.Context(), engine.ID(mine.Id))
	if err != nil || rec.Subject.Owner != "oidc:ann" {
		t.Errorf("owner %q, %v", rec.Subject.Owner, err)
	}
	g.visit(http.MethodGet, "/api/v1/videos/"+mine.Id, nil).want(t, 200, "")
	g.visit(http.MethodPost, "/api/v1/videos", `{"title":"a","priority":"high"}`).want(t, 403, "forbidden")
	g.visit(http.MethodPost, "/api/v1/videos", `{"title":"a"}`, "Sec-Fetch-Site", "cross-site").want(t, 403, "cross_origin")
	g.visit(http.MethodPost, "/auth/signout", nil, "Sec-Fetch-Site", "cross-site").want(t, 403, "cross_origin")
	if page := string(g.visit(http.MethodGet, "/", nil).body); !strings.Contains(page, "Sign out") {
		t.Error("the page has no way out")
	}
	forged := &guest{s, map[string]string{"__Host-session": g.cookies["__Host-session"] + "x"}}
	forged.visit(http.MethodGet, "/api/v1/videos", nil).want(t, 401, "unauthorized")
	swapped := &guest{s, map[string]string{"__Host-session": during["__Host-signin"]}}
	swapped.visit(http.MethodGet, "/api/v1/videos", nil).want(t, 401, "unauthorized")

	// The issuer's keys rotate: the next one counts, and the one before no more.
	old, oldID := i.key, i.id
	i.rotate("second")
	later := newGuest(s)
	if a := later.visit(http.MethodGet, later.leave(i, "/"), nil); a.StatusCode != http.StatusFound {
		t.Errorf("with the issuer's next key: %d %s", a.StatusCode, a.body)
	}
	i.answer = func(claims map[string]any) string { return signed(t, jose.ES256, crypto.Signer(old), oldID, claims) }
	late := newGuest(s)
	late.visit(http.MethodGet, late.leave(i, "/"), nil).want(t, 401, "unauthorized")

	// Our own keys rotate: any role that has the key knows the session.
	const nextKey = "another-session-key-of-enough-letters"
	both := &guest{start(t, signInSettings(i, nextKey+","+sessionKey)), g.cookies}
	both.visit(http.MethodGet, "/api/v1/videos", nil).want(t, 200, "")
	gone := &guest{start(t, signInSettings(i, nextKey)), g.cookies}
	gone.visit(http.MethodGet, "/api/v1/videos", nil).want(t, 401, "unauthorized")

	copied := &guest{s, maps.Clone(g.cookies)}
	copied.visit(http.MethodGet, "/api/v1/videos/"+mine.Id, nil).want(t, 200, "")
	if a := g.visit(http.MethodPost, "/auth/signout", nil); a.StatusCode != http.StatusSeeOther || len(g.cookies) != 0 {
		t.Errorf("after the sign-out: %d, %v", a.StatusCode, g.cookies)
	}
	g.visit(http.MethodGet, "/api/v1/videos/"+mine.Id, nil).want(t, 401, "unauthorized")
	// The session has ended, and not this cookie alone.
	copied.visit(http.MethodGet, "/api/v1/videos/"+mine.Id, nil).want(t, 401, "unauthorized")
}

// TestSignInIsLimited: who repeats the way to the issuer, or back, is limited as at the
// API, and so is what the issuer is asked for him.
func TestSignInIsLimited(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.answer = func(map[string]any) string { return "a.b.c" }
	const limit, often = 20, 200
	env := signInSettings(i, sessionKey)
	env["WEBROLE_RATE_LIMIT"], env["WEBROLE_TRUSTED_PROXIES"] = strconv.Itoa(limit), "127.0.0.1"
	g := newGuest(start(t, env))
	from := func(client, path string) func() answer {
		return func() answer { return g.visit(http.MethodGet, path, nil, "X-Forwarded-For", client) }
	}
	if n := untilLimited(t, often, from("198.51.100.1", "/auth/signin")); n < limit || n == often {
		t.Errorf("%d of %d ways to the issuer were shown", n, often)
	}
	back := g.leave(i, "/") // another client
	held := maps.Clone(g.cookies)
	n := untilLimited(t, often, func() answer {
		maps.Copy(g.cookies, held) // which the answer takes away
		return from("198.51.100.2", back)()
	})
	i.mu.Lock()
	asked := i.exchanges
	i.mu.Unlock()
	// Package oauth2 shows the client's secret in two ways until one was taken.
	if n < limit || n == often || asked < n || asked > 2*n {
		t.Errorf("of %d ways back %d were looked at, and the issuer was asked %d times", often, n, asked)
	}
}

// TestIssuerAway: while the issuer is silent, each request waits as long as one request
// to it takes, however many wait, and the issuer is not asked for each of them.
func TestIssuerAway(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	var asked atomic.Int64
	silent, release := context.WithCancel(t.Context())
	away := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		select {
		case <-silent.Done():
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { release(); away.Close() })
	s := start(t, signInSettings(&issuer{Server: away}, sessionKey))
	const callers = 20
	begin := time.Now()
	var waiting sync.WaitGroup
	for range callers {
		waiting.Go(func() { s.get("/auth/signin").want(t, 503, "issuer_unavailable") })
	}
	waiting.Wait()
	if took := time.Since(begin); took > azuritetest.Patience(9*time.Second) { // two requests in a row would be 10 s
		t.Errorf("%d callers waited for up to %v", callers, took)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the issuer was asked %d times", n)
	}
}

// TestSignInSettings: a sign-in that is not safe does not start.
func TestSignInSettings(t *testing.T) {
	t.Parallel()
	good := map[string]string{
		"WEBROLE_TOKEN": testToken, "WEBROLE_OIDC_ISSUER": "https://id.example.org", "WEBROLE_OIDC_CLIENT_ID": "us",
		"WEBROLE_URL": "https://video.example.org", "WEBROLE_SESSION_KEYS": sessionKey,
	}
	if _, err := loadConfig(func(name string) string { return good[name] }); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"WEBROLE_TOKEN": "", "WEBROLE_OIDC_ISSUER": "http://id.example.org", "WEBROLE_OIDC_CLIENT_ID": "", "WEBROLE_URL": "https://video.example.org/x",
		"WEBROLE_SESSION_KEYS": "short", "WEBROLE_OIDC_ROLE": "root",
	} {
		env := maps.Clone(good)
		env[name] = bad
		if _, err := loadConfig(func(name string) string { return env[name] }); err == nil || strings.Contains(err.Error(), "short") {
			t.Errorf("%s=%s: %v", name, bad, err)
		}
	}
}

func init() {
	parts = append(parts, part{
		routes: `free GET /auth/signin
free GET /auth/callback
free POST /auth/signout
`,
	})
}
