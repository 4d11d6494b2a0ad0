// Package middleware is what every request passes before a handler sees it: deadlines,
// request id and log line, recovery, security headers, host allow-list, cross-origin
// protection, and the rate limit; for pages, API and playback alike.
//
// Next: webrole/internal/httpapi, the routes behind it.
package middleware
