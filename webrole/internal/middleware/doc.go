// Package middleware is what every request passes before a handler sees it: deadlines,
// request id and log line, recovery, security headers, host allow-list, cross-origin
// protection, and the rate limit. They are plain net/http, so
// that they hold for pages, API and playback alike.
//
// Next: webrole/internal/httpapi, the routes behind it.
package middleware

import "net/http"

// Middleware wraps a handler.
type Middleware func(http.Handler) http.Handler

// Chain applies middlewares so that the first one sees a request first.
func Chain(h http.Handler, chain ...Middleware) http.Handler {
	for i := len(chain) - 1; i >= 0; i-- {
		h = chain[i](h)
	}
	return h
}
