package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/video"
)

// policy is the Content-Security-Policy that every answer has, but for frame-ancestors,
// which other sites' pages may be for /embed/ alone, and connect-src, which has the
// storage's address. No script-src: scripts are what default-src says.
var policy = map[string]string{
	"default-src": "'self'", "img-src": "'self' data: blob:", "media-src": "'self' blob: data:", "worker-src": "'self' blob:",
	"object-src": "'none'", "base-uri": "'none'", "form-action": "'self'",
}

// TestHeadersOfEveryRoute: whatever a route answers, to an operator and to a stranger, has
// the security headers, and nothing but a static file may be kept without being asked for
// again. A route that is not asked for here fails the test.
func TestHeadersOfEveryRoute(t *testing.T) {
	t.Parallel()
	c := openAll(t)
	id := c.announce(owner, video.Public)
	unasked := wantedRoutes()
	for base, routes := range c.listeners() {
		for _, route := range append(routes, gin.RouteInfo{Method: http.MethodGet, Path: "/no/such/address"}, gin.RouteInfo{Method: http.MethodPut, Path: "/"}) {
			delete(unasked, route.Method+" "+route.Path)
			for _, who := range []string{operator, visitor} {
				name := fmt.Sprintf("%s %s as %s", route.Method, route.Path, who)
				h := c.headersOf(who, route.Method, base+addressOf(route, fillWith(id)))
				for header, want := range map[string]string{
					"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
					"Permissions-Policy": "camera=(), microphone=(), geolocation=()",
				} {
					if got := h.Get(header); got != want {
						t.Errorf("%s: %s is %q", name, header, got)
					}
				}
				framed := strings.HasPrefix(route.Path, "/embed/")
				if framed == (h.Get("X-Frame-Options") == "DENY") {
					t.Errorf("%s: X-Frame-Options is %q", name, h.Get("X-Frame-Options"))
				}
				checkPolicy(t, name, h.Values("Content-Security-Policy"), framed)
				if kept := h.Get("Cache-Control"); strings.Contains(kept, "max-age") {
					t.Errorf("%s may be kept: %q", name, kept)
				}
				if h.Get("X-Request-Id") == "" || h.Get("Access-Control-Allow-Origin") != "" || h.Get("Server") != "" || h.Get("X-Powered-By") != "" {
					t.Errorf("%s says too much or too little: %v", name, h)
				}
			}
		}
	}
	for route := range unasked {
		t.Errorf("%s was not asked: give openAll what it needs to be there", route)
	}
}

// checkPolicy wants one policy, with each directive as it is meant.
func checkPolicy(t *testing.T, name string, headers []string, framed bool) {
	t.Helper()
	if len(headers) != 1 {
		t.Errorf("%s: policies %q", name, headers)
		return
	}
	want := maps.Clone(policy)
	want["connect-src"], want["frame-ancestors"] = "'self' and storage", "'none'"
	if framed {
		want["frame-ancestors"] = "*"
	}
	for directive := range strings.SplitSeq(headers[0], "; ") {
		what, whence, _ := strings.Cut(directive, " ")
		switch {
		case what == "connect-src" && strings.HasPrefix(whence, "'self' http://127.0.0.1:") && strings.Count(whence, " ") == 1:
		case whence == "" || want[what] != whence:
			t.Errorf("%s: the policy has %q", name, directive)
		}
		delete(want, what)
	}
	if len(want) != 0 {
		t.Errorf("%s: the policy lacks %v", name, want)
	}
}

// headersOf asks and leaves when the headers are there: some answers have no end.
func (c *community) headersOf(who, method, url string) http.Header {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		c.t.Fatal(err)
	}
	if key := c.keys[who]; key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := c.client.Transport.RoundTrip(req) // a redirect is an answer, too
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, url, err)
	}
	cancel()
	_, err = io.Copy(io.Discard, resp.Body)
	if err != nil && !errors.Is(err, context.Canceled) {
		c.t.Errorf("%s %s: %v", method, url, err)
	}
	_ = resp.Body.Close()
	return resp.Header
}
