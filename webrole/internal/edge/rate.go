package edge

import (
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// rateWindow is the span that the limit counts over.
const rateWindow = 10 * time.Second

// maxClients bounds the limiter's memory; beyond it everybody starts afresh.
const maxClients = 10_000

// Rate lets each client address make limit API requests in 10 s, then answers
// 429 with Retry-After. It counts in this process only: with n web roles a
// client gets up to n times as many. Zero switches it off. Playback and health
// are not counted.
func Rate(limit int) Middleware {
	return func(next http.Handler) http.Handler {
		if limit <= 0 {
			return next
		}
		var mu sync.Mutex
		counts := map[string]int{}
		var window time.Time
		over := func(client string) (time.Duration, bool) {
			mu.Lock()
			defer mu.Unlock()
			now := time.Now()
			if now.Sub(window) >= rateWindow || len(counts) >= maxClients {
				window = now
				clear(counts)
			}
			counts[client]++
			return rateWindow - now.Sub(window), counts[client] > limit
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/api/") {
				client, _, _ := net.SplitHostPort(r.RemoteAddr)
				if wait, refused := over(client); refused {
					e := problem.New(http.StatusTooManyRequests, problem.RateLimited, "At most %d requests in %v.", limit, rateWindow)
					e.RetryAfter = int(wait/time.Second) + 1
					problem.Write(w, r, e)
					return
				}
			}
			next.ServeHTTP(w, r)
		})
	}
}
