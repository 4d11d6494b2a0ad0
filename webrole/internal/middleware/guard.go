package middleware

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// Headers sets the security headers of every answer. blobOrigin is where the
// page may send blocks to; empty allows nothing but this server.
func Headers(blobOrigin string) gin.HandlerFunc {
	csp := strings.Join([]string{
		"default-src 'self'",
		"connect-src 'self' " + blobOrigin,
		"img-src 'self' data: blob:",
		"media-src 'self' blob: data:", // Media Source Extensions; hls.js gives each list of captions an empty file first
		"worker-src 'self' blob:",
		"object-src 'none'",
		"base-uri 'none'",
		"form-action 'self'",
		"frame-ancestors 'none'",
	}, "; ")
	return func(c *gin.Context) {
		c.Header("Content-Security-Policy", csp)
		c.Header("X-Content-Type-Options", "nosniff")
		c.Header("Referrer-Policy", "no-referrer")
		c.Header("X-Frame-Options", "DENY")
		c.Header("Cross-Origin-Opener-Policy", "same-origin")
		c.Header("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
	}
}

// Hosts refuses requests for a name that is not ours: a page of another site
// that rebinds its own name to 127.0.0.1 ends here (421 host_not_allowed).
// Health checks by address are let through. An empty list allows every name.
func Hosts(allowed []string) gin.HandlerFunc {
	return func(c *gin.Context) {
		if len(allowed) > 0 && !isHealth(c.Request) && !slices.Contains(allowed, strings.ToLower((&url.URL{Host: c.Request.Host}).Hostname())) {
			problem.Abort(c, problem.New(problem.HostNotAllowed, "This server does not answer for that host name."))
		}
	}
}

var protection = http.NewCrossOriginProtection()

// SameOrigin refuses unsafe requests that a browser sends for another site's
// page (403 cross_origin). Clients that are not browsers pass.
func SameOrigin(c *gin.Context) {
	if err := protection.Check(c.Request); err != nil {
		problem.Abort(c, problem.New(problem.CrossOrigin, "Another site's page may not do this.").Because(err))
	}
}

func isHealth(r *http.Request) bool {
	return r.URL.Path == "/livez" || r.URL.Path == "/readyz"
}
