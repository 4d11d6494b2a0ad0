package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/apikeys"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

// The people of the matrix.
const (
	visitor  = "visitor"  // shows nothing
	viewer   = "viewer"   // a key that may watch
	stranger = "stranger" // a key that may upload, of another owner
	owner    = "owner"    // a key that may upload, whose videos these are
	lookerOn = "looker"   // a key that may only watch, of the owner
	operator = "operator" // holds the token
	newcomer = "newcomer" // a key of the owner with a role of a later release; not in the matrix
)

var people = []string{visitor, viewer, stranger, owner, lookerOn, operator}

// allowed says whether a person may use a route for a video, and whether he sees the
// video at all. It is written down, not computed as package access does.
func allowed(class, who string, v video.Visibility) (may, sees bool) {
	sees = v == video.Public || v == video.Unlisted || who == owner || who == lookerOn || who == operator
	switch class {
	case "free", "viewers":
		return true, true
	case "seers":
		return sees, sees
	case "clippers":
		return sees && (who == stranger || who == owner || who == operator), sees
	case "owners":
		return who == owner || who == operator, sees
	case "uploaders":
		return who == stranger || who == owner || who == operator, true
	}
	return who == operator, true
}

// community is a role on which people have keys.
type community struct {
	*server
	keys map[string]string // by name
}

func openCommunity(t *testing.T, variables map[string]string) *community {
	t.Helper()
	env := map[string]string{"WEBROLE_TOKEN": testToken, "WEBROLE_ANONYMOUS": "on", "WEBROLE_PUBLIC_OPS": "on"}
	for name, value := range variables {
		env[name] = value
	}
	c := &community{start(t, env), map[string]string{operator: testToken}}
	c.keys[viewer] = c.newKey("studio-1", api.RoleViewer).Text
	c.keys[stranger] = c.newKey("studio-2", api.RoleUploader).Text
	c.keys[owner] = c.newKey("studio-3", api.RoleUploader).Text
	c.keys[lookerOn] = c.newKey("studio-3", api.RoleViewer).Text
	_, text, err := apikeys.New(c.account).Create(t.Context(), apikeys.Key{Name: "of a test", Owner: "studio-3", Role: "curator"})
	if err != nil {
		t.Fatal(err)
	}
	c.keys[newcomer] = text
	return c
}

func (c *community) newKey(owner string, role api.Role) api.MadeKey {
	c.t.Helper()
	body := api.NewKey{Name: "of a test", Owner: owner, Role: role}
	return decode[api.MadeKey](c.t, c.as(operator, http.MethodPost, "/api/v1/ops/keys", body), http.StatusCreated)
}

// as asks as one of the people.
func (c *community) as(who, method, path string, body any, headers ...string) answer {
	c.t.Helper()
	if text := c.keys[who]; text != "" {
		headers = append(headers, "Authorization", "Bearer "+text)
	}
	return c.send(c.request(method, c.public+path, body, headers...))
}

func (c *community) announce(who string, v video.Visibility) string {
	c.t.Helper()
	made := c.as(who, http.MethodPost, "/api/v1/videos", map[string]any{"title": "Of " + who, "visibility": v})
	return decode[api.Video](c.t, made, http.StatusCreated).Id
}

// TestMatrix asks for every route of both listeners, as everybody, for videos of every
// visibility and of one that this release does not know. What is allowed gets as far as a
// check that comes after the rules, so that nothing changes. A route that the table above
// lacks fails the test.
func TestMatrix(t *testing.T) {
	t.Parallel()
	c := openAll(t)
	classes := wantedRoutes()
	videos := map[video.Visibility]string{}
	for _, v := range []video.Visibility{video.Public, video.Unlisted, video.Private} {
		videos[v] = c.announce(owner, v)
	}
	videos[membersOnly] = c.announce(owner, video.Public)
	_, err := c.videos.Change(t.Context(), engine.ID(videos[membersOnly]), "", func(v *video.Video) ([]engine.OutboxMessage, error) {
		v.Visibility = membersOnly
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	unknown := string(engine.NewID())
	seen := map[string]bool{}
	var asking errgroup.Group
	asking.SetLimit(4)
	for base, routes := range c.listeners() {
		for _, route := range routes {
			name := route.Method + " " + route.Path
			class := classes[name]
			if class == "" {
				t.Errorf("nothing says who is allowed to %s: add it to this test, and to package access if it is not only operators", name)
			}
			seen[name] = true
			for visibility, id := range videos {
				if !strings.Contains(route.Path, ":id") && visibility != video.Public {
					continue
				}
				for _, who := range people {
					asking.Go(func() error {
						return c.tryRoute(base+addressOf(route, fillWith(id)), base+addressOf(route, fillWith(unknown)), name, class, who, visibility)
					})
				}
			}
		}
	}
	if err := asking.Wait(); err != nil {
		t.Error(err)
	}
	for route := range classes {
		if !seen[route] {
			t.Errorf("there is no route %s any more", route)
		}
	}
}

// TestUnknownRole: who has a role that this release does not know may do nothing, not even
// with videos of his own.
func TestUnknownRole(t *testing.T) {
	t.Parallel()
	c := openAll(t)
	id := c.announce(owner, video.Public)
	classes := wantedRoutes()
	for base, routes := range c.listeners() {
		for _, route := range routes {
			name := route.Method + " " + route.Path
			if classes[name] == "free" {
				continue
			}
			status, _, err := c.ask(newcomer, route.Method, base+addressOf(route, fillWith(id)))
			if err != nil || status != http.StatusForbidden && status != http.StatusNotFound {
				t.Errorf("%s: %d, %v", name, status, err)
			}
		}
	}
}

const sessionKey = "a-session-key-of-thirty-two-letters"

// openAll is a community on a role that has every route there is: with a lab, and with an
// issuer, which is away.
func openAll(t *testing.T) *community {
	t.Helper()
	bench := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(bench.Close)
	return openCommunity(t, map[string]string{
		"CUTROOM_LAB":         strings.Replace(bench.URL, "http://", "http://lab:"+testToken+"@", 1),
		"WEBROLE_OIDC_ISSUER": "http://127.0.0.1:1", "WEBROLE_OIDC_CLIENT_ID": "us", "WEBROLE_URL": "http://127.0.0.1", "WEBROLE_SESSION_KEYS": sessionKey,
	})
}

func fillWith(id string) map[string]string {
	return map[string]string{"id": id, "path": "master.m3u8", "file": "style.css", "name": "heap", "language": "en", "scene": "papers-scene", "page": "claim-check", "stop": "2", "queue": "probe", "bib": "7"}
}

// tryRoute asks for one cell of the matrix. To strangers a private video answers as
// unknown does, letter by letter.
func (c *community) tryRoute(url, unknown, name, class, who string, visibility video.Visibility) error {
	method, _, _ := strings.Cut(name, " ")
	may, sees := allowed(class, who, visibility)
	status, body, err := c.ask(who, method, url)
	if err != nil {
		return err
	}
	cell := fmt.Sprintf("%s as %s, %s", name, who, visibility)
	switch {
	case strings.Contains(name, " /auth/"):
		if body.Code == "forbidden" { // there is no issuer
			return fmt.Errorf("%s: %d %s", cell, status, body.Code)
		}
	case may && strings.Contains(name, " /v/"):
		if status != http.StatusNotFound || method == http.MethodGet && body.Code != "not_playable_yet" {
			return fmt.Errorf("%s: %d %s, want to be told that it can't be watched yet", cell, status, body.Code)
		}
	case may && strings.Contains(name, "/api/v1/lab"):
		if status == 401 || status == 403 {
			return fmt.Errorf("%s: %d %s, want to be let through", cell, status, body.Code)
		}
	case may && strings.Contains(name, "/api/"):
		if status != http.StatusBadRequest {
			return fmt.Errorf("%s: %d %s, want 400 from the check of parameters", cell, status, body.Code)
		}
	case may:
		if status != http.StatusOK {
			return fmt.Errorf("%s: %d %s, want a page", cell, status, body.Code)
		}
	case !sees:
		otherStatus, other, err := c.ask(who, method, unknown)
		if status != http.StatusNotFound || otherStatus != status || other != body || err != nil {
			return fmt.Errorf("%s: %d %+v, but an unknown video: %d %+v, %v", cell, status, body, otherStatus, other, err)
		}
	case who == visitor:
		if status != http.StatusUnauthorized || body.Code != "unauthorized" {
			return fmt.Errorf("%s: %d %s, want 401", cell, status, body.Code)
		}
	case status != http.StatusForbidden || body.Code != "forbidden":
		return fmt.Errorf("%s: %d %s, want 403", cell, status, body.Code)
	}
	return nil
}

// ask returns the status and the problem of an answer, but for its request id.
func (c *community) ask(who, method, url string) (int, api.Problem, error) {
	var p api.Problem
	if strings.Contains(url, "/api/") && !strings.Contains(url, "/lab") {
		url += "?no-such-parameter=1"
	}
	req, err := http.NewRequestWithContext(c.t.Context(), method, url, http.NoBody)
	if err != nil {
		return 0, p, err
	}
	if text := c.keys[who]; text != "" {
		req.Header.Set("Authorization", "Bearer "+text)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return 0, p, err
	}
	defer resp.Body.Close() //nolint:errcheck // reading only
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil {
		return 0, p, err
	}
	if resp.Header.Get("Content-Type") == "application/problem+json" && b.Len() > 0 {
		if err := json.Unmarshal(b.Bytes(), &p); err != nil {
			return 0, p, err
		}
		p.RequestId = nil
	}
	return resp.StatusCode, p, nil
}

// TestStrangersSeeNothing does for real what the matrix only tries: what an owner does
// with a private video works, and the same request of a stranger answers 404 and
// changes nothing.
func TestStrangersSeeNothing(t *testing.T) {
	t.Parallel()
	c := openCommunity(t, nil)
	id := c.announce(owner, video.Private)
	path := "/api/v1/videos/" + id
	steps := []private{
		{"GET", path, nil, nil, 200},
		{"PATCH", path, `{"title":"Mine"}`, []string{"If-Match", "*"}, 200},
		{"GET", path + "/upload", nil, nil, 200},
		{"POST", path + "/upload", `{"sizeBytes":100}`, nil, 200},
		{"PUT", path + "/content", movie(100), nil, 202},
	}
	for _, p := range parts {
		if p.private != nil {
			steps = append(steps, p.private(path)...)
		}
	}
	for _, step := range append(steps, []private{
		{"GET", path + "/steps", nil, nil, 200},
		{"POST", path + "/cancel", nil, nil, 202},
		{"DELETE", path, nil, nil, 202},
	}...) {
		for _, who := range []string{visitor, viewer, stranger} {
			c.as(who, step.method, step.path, step.body, step.headers...).want(t, 404, "not_found")
		}
		if got := c.as(owner, step.method, step.path, step.body, step.headers...); got.StatusCode != step.status {
			t.Errorf("%s %s as the owner: %d %s", step.method, step.path, got.StatusCode, got.body)
		}
	}
}

// TestWorkOfOthers: what an uploader may not do with a video that everybody sees, and
// what makes work go before that of others.
func TestWorkOfOthers(t *testing.T) {
	t.Parallel()
	c := openCommunity(t, nil)
	id := c.announce(owner, video.Public)
	path := "/api/v1/videos/" + id
	c.as(stranger, "PATCH", path, `{"title":"Theirs"}`, "If-Match", "*").want(t, 403, "forbidden")
	c.as(stranger, "DELETE", path, nil).want(t, 403, "forbidden")
	c.as(viewer, "POST", "/api/v1/videos", `{"title":"a"}`).want(t, 403, "forbidden")
	c.as(visitor, "POST", "/api/v1/videos", `{"title":"a"}`).want(t, 401, "unauthorized")
	c.as(owner, "POST", "/api/v1/videos", `{"title":"a","priority":"high"}`).want(t, 403, "forbidden")
	c.as(owner, "PATCH", path, `{"priority":"high"}`, "If-Match", "*").want(t, 403, "forbidden")
	c.as(operator, "PATCH", path, `{"priority":"high"}`, "If-Match", "*").want(t, 200, "")
	c.as(owner, "PATCH", path, `{"priority":"high","title":"Renamed"}`, "If-Match", "*").want(t, 200, "")

	// An Idempotency-Key is its owner's.
	create := func(who string) api.Video {
		made := c.as(who, "POST", "/api/v1/videos", `{"title":"Once","visibility":"private"}`, "Idempotency-Key", "1")
		return decode[api.Video](t, made, http.StatusCreated)
	}
	first := create(owner)
	if again := create(owner); again.Id != first.Id {
		t.Error("the owner's repetition made another video")
	}
	if other := create(stranger); other.Id == first.Id {
		t.Error("a stranger guessed a key and got the owner's video")
	}
}

// TestKeys: a key is shown once, works at once, and stops working when it is revoked.
func TestKeys(t *testing.T) {
	t.Parallel()
	c := openCommunity(t, nil)
	made := c.newKey("studio-9", api.RoleUploader)
	list := func() []api.Key {
		a := c.as(operator, "GET", "/api/v1/ops/keys?limit=100", nil)
		if bytes.Contains(a.body, []byte(made.Text)) || bytes.Contains(a.body, []byte(strings.TrimPrefix(made.Text, "key_"+made.Key.ID+"_"))) {
			t.Error("the list shows the text of a key")
		}
		return decode[api.KeyList](t, a, http.StatusOK).Items
	}
	if found := list(); len(found) != len(c.keys) { // the operator has the token, and this key is one more
		t.Errorf("%d keys are listed, want %d", len(found), len(c.keys))
	}
	c.keys["new"] = made.Text
	c.as("new", "POST", "/api/v1/videos", `{"title":"a"}`).want(t, 201, "")
	withPassword := c.request("POST", c.public+"/api/v1/videos", `{"title":"a"}`)
	withPassword.SetBasicAuth("", made.Text)
	c.send(withPassword).want(t, 201, "")
	for _, bad := range []string{
		made.Text[:len(made.Text)-1], made.Text + "a", strings.Replace(made.Text, "key_", "", 1), "key_" + made.Key.ID + "_" + strings.Repeat("a", 26),
		"key_" + strings.Repeat("a", 12) + "_" + strings.Repeat("a", 26), "key_'/\\?#aaaaaaa_" + strings.Repeat("a", 26), "key_", "key__", strings.ToUpper(made.Text),
	} {
		c.keys["bad"] = bad
		c.as("bad", "GET", "/api/v1/videos", nil).want(t, 401, "unauthorized")
	}
	for _, bad := range []string{`{"name":"","owner":"a","role":"viewer"}`, `{"name":"a","owner":"a b","role":"viewer"}`, `{"name":"a","owner":"a","role":"root"}`, `{"name":"a\u0007","owner":"a","role":"viewer"}`} {
		c.as(operator, "POST", "/api/v1/ops/keys", bad).want(t, 400, "invalid_body")
	}
	for range 2 {
		c.as(operator, "DELETE", "/api/v1/ops/keys/"+made.Key.ID, nil).want(t, 204, "")
	}
	c.as(operator, "DELETE", "/api/v1/ops/keys/"+strings.Repeat("a", 12), nil).want(t, 404, "not_found")
	revoked := false
	for _, k := range list() {
		revoked = revoked || k.ID == made.Key.ID && !k.RevokedAt.IsZero()
	}
	if !revoked {
		t.Error("the list does not say that the key was revoked")
	}
	c.as("new", "GET", "/api/v1/videos", nil).want(t, 401, "unauthorized")
}

// TestOpenOnLoopback: without a token anyone who comes is the built-in owner, whatever he
// shows.
func TestOpenOnLoopback(t *testing.T) {
	t.Parallel()
	s := startOps(t, nil)
	v := s.create(map[string]any{"visibility": "private", "priority": "high"})
	for _, header := range []string{"", "Bearer nonsense", "Basic Og=="} {
		s.call(http.MethodGet, "/videos/"+v.Id, nil, "Authorization", header).want(t, http.StatusOK, "")
		s.call(http.MethodGet, "/ops/keys", nil, "Authorization", header).want(t, http.StatusOK, "")
	}
	rec, err := s.videos.Get(t.Context(), engine.ID(v.Id))
	if err != nil || rec.Subject.Owner != video.LocalOwner {
		t.Errorf("owner %q, %v", rec.Subject.Owner, err)
	}
	if page := string(s.get("/upload").body); !strings.Contains(page, "There is no sign-in here") {
		t.Error("the page does not say that there is no sign-in")
	}
	guarded := openCommunity(t, nil)
	if page := string(guarded.get("/upload").body); strings.Contains(page, "There is no sign-in here") {
		t.Error("the page says that there is no sign-in, where there is one")
	}
}

// TestWorkersAreForOwners: which workers made a video, and what it cost, is told to its
// owner and to operators. Their names are those of hosts.
func TestWorkersAreForOwners(t *testing.T) {
	t.Parallel()
	c := openCommunity(t, nil)
	id := c.announce(owner, video.Public)
	c.as(owner, "PUT", "/api/v1/videos/"+id+"/content", movie(100)).want(t, 202, "")
	if _, err := c.videos.Claim(t.Context(), engine.Key{ID: engine.ID(id), Generation: 1, Step: workflow.StepProbe}, "message", "host-of-ours-7", time.Time{}); err != nil {
		t.Fatal(err)
	}
	for who, told := range map[string]bool{owner: true, operator: true, stranger: false, visitor: false} {
		for _, path := range []string{"/steps", "/journey"} {
			a := c.as(who, "GET", "/api/v1/videos/"+id+path, nil)
			if a.StatusCode != http.StatusOK || bytes.Contains(a.body, []byte("host-of-ours")) != told {
				t.Errorf("%s tells %q %d %s", path, who, a.StatusCode, a.body)
			}
		}
		v := decode[api.Video](t, c.as(who, "GET", "/api/v1/videos/"+id, nil), http.StatusOK)
		if v.MayChange == nil || *v.MayChange != told {
			t.Errorf("%q may change it: %v", who, v.MayChange)
		}
	}
}

// TestErrorsInsideAreForOperators: who is not an operator is told the code of an error
// that names hosts and blobs of ours, and all of one that is about the file.
func TestErrorsInsideAreForOperators(t *testing.T) {
	t.Parallel()
	c := openCommunity(t, nil)
	const inside = "open source: dial tcp 10.1.2.3:10000 of /devstoreaccount1/sources"
	for _, failed := range []struct {
		cause error
		told  string
	}{
		{errors.New(inside), "retrying"},
		{engine.Fail(video.CorruptMedia, "The sound cannot be decoded."), "corrupt_media: The sound cannot be decoded."},
	} {
		id := c.announce(owner, video.Public)
		c.as(owner, "PUT", "/api/v1/videos/"+id+"/content", movie(100)).want(t, 202, "")
		claim, err := c.videos.Claim(t.Context(), engine.Key{ID: engine.ID(id), Generation: 1, Step: workflow.StepProbe}, "message", "worker-1", time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if err := claim.GiveBack(t.Context(), engine.OutcomeReleased, failed.cause); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/steps", "/journey"} {
			told := c.as(owner, "GET", "/api/v1/videos/"+id+path, nil).body
			if bytes.Contains(told, []byte("10.1.2.3")) || path == "/journey" && !bytes.Contains(told, []byte(failed.told)) {
				t.Errorf("%s tells the owner %s", path, told)
			}
			if told := c.as(operator, "GET", "/api/v1/videos/"+id+path, nil).body; !bytes.Contains(told, []byte(failed.cause.Error())) {
				t.Errorf("%s does not tell the operator: %s", path, told)
			}
		}
	}
}

func init() {
	parts = append(parts, part{
		routes: `operators GET /api/v1/ops/keys
operators POST /api/v1/ops/keys
operators DELETE /api/v1/ops/keys/:keyId
`,
		lists: []list{
			{"listKeys", "/ops/keys", []damage{{apikeys.Table, "{key} KEY", 1}}},
		},
		library: func(l *library) {
			var keys []string
			for range 2 {
				made := decode[api.MadeKey](l.t, l.ops(http.MethodPost, "/ops/keys", api.NewKey{Name: "test", Owner: "studio", Role: api.RoleViewer}), http.StatusCreated)
				keys = append(keys, made.Key.ID)
			}
			l.words = append(l.words, "{key}", keys[0])
		},
	})
}
