package middleware

import (
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// Headers sets the security headers of every answer. blobOrigin is where the
// page may send blocks to; empty allows nothing but this server.
func Headers(blobOrigin string) Middleware {
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
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			h.Set("Content-Security-Policy", csp)
			h.Set("X-Content-Type-Options", "nosniff")
			h.Set("Referrer-Policy", "no-referrer")
			h.Set("X-Frame-Options", "DENY")
			h.Set("Cross-Origin-Opener-Policy", "same-origin")
			h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
			next.ServeHTTP(w, r)
		})
	}
}

// Hosts refuses requests for a name that is not ours: a page of another site
// that rebinds its own name to 127.0.0.1 ends here (421 host_not_allowed).
// Health checks by address are let through. An empty list allows every name.
func Hosts(allowed []string) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if len(allowed) > 0 && !isHealth(r) && !slices.Contains(allowed, hostname(r.Host)) {
				problem.Write(w, r, problem.New(problem.HostNotAllowed, "This server does not answer for that host name."))
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

func hostname(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// SameOrigin refuses unsafe requests that a browser sends for another site's
// page (403 cross_origin). Clients that are not browsers pass.
func SameOrigin(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		problem.Write(w, r, problem.New(problem.CrossOrigin, "Another site's page may not do this."))
	}))
	return protection.Handler(next)
}

func isHealth(r *http.Request) bool {
	return r.URL.Path == "/livez" || r.URL.Path == "/readyz"
}
