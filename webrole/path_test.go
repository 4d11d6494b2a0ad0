package main

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// answers sends an answer to the question of a stop, as a form does, and returns what the
// browser is told and the ticks that it is to keep.
func answers(s *server, stop, given string, headers ...string) (a answer, ticks string) {
	s.t.Helper()
	headers = append(headers, "Content-Type", "application/x-www-form-urlencoded")
	a = s.send(s.request(http.MethodPost, s.public+"/learn/path/"+stop, url.Values{"answer": {given}}.Encode(), headers...))
	for _, c := range a.Cookies() {
		if c.Name == "path" {
			ticks = c.Value
		}
	}
	return a, ticks
}

// TestTicksOfThePath: every reader of the pages may answer, with a sign-in and without one,
// but no other site in their name; and an answer is no change that is written down.
func TestTicksOfThePath(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.answer = func(claims map[string]any) string { return signed(t, jose.ES256, i.key, i.id, claims) }
	open, closed := startOps(t, nil), start(t, signInSettings(i, sessionKey))
	g := newGuest(closed)
	g.visit(http.MethodGet, g.leave(i, "/learn"), nil)
	session := "__Host-session=" + g.cookies["__Host-session"]
	open.client.CheckRedirect = closed.client.CheckRedirect

	for name, c := range map[string]struct {
		*server
		headers []string
	}{
		"without a sign-in": {open, []string{"Cookie", "path=1"}},
		"signed in":         {closed, []string{"Cookie", session + "; path=1"}},
		"with a token":      {closed, []string{"Authorization", "Bearer " + testToken, "Cookie", "path=1"}},
	} {
		if a, ticks := answers(c.server, "3", "1", c.headers...); a.StatusCode != http.StatusSeeOther || ticks != "1-3" {
			t.Errorf("%s: %d, ticks %q", name, a.StatusCode, ticks)
		}
		if a, ticks := answers(c.server, "3", "0", c.headers...); a.StatusCode != http.StatusSeeOther || ticks != "" {
			t.Errorf("%s, a wrong answer: %d, ticks %q", name, a.StatusCode, ticks)
		}
		a, ticks := answers(c.server, "3", "1", append(c.headers, "Sec-Fetch-Site", "cross-site")...)
		if a.want(t, 403, "cross_origin"); ticks != "" {
			t.Errorf("%s: another site's form is answered with ticks %q", name, ticks)
		}
		a, _ = answers(c.server, "8", "1", c.headers...)
		a.want(t, 404, "not_found")
		if page := string(c.get("/learn", c.headers...).body); strings.Count(page, "✓ answered") != 1 {
			t.Errorf("%s: /learn has other ticks than that of the cookie", name)
		}
	}
	a, _ := answers(closed, "3", "1")
	a.want(t, 401, "unauthorized")
	trail := open.call(http.MethodGet, "/ops/audit", nil)
	if trail.want(t, 200, ""); strings.Contains(string(trail.body), "/learn") {
		t.Errorf("the audit trail has an answer: %s", trail.body)
	}
}
