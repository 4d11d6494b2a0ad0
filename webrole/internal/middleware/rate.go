package middleware

import (
	"net/netip"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// rateWindow is the span that limits are given for.
const rateWindow = 10 * time.Second

// maxClients bounds a limiter's memory, to some 20 MB. Beyond it the client that was
// silent longest is forgotten, and only that one: a client that wants a fresh start needs
// as many addresses as this within the window, each with a limit of its own.
const maxClients = 1 << 16

// Limits are how many requests a client may make in 10 s. Zero is no limit.
type Limits struct {
	API      int // requests under /api/ and /auth/, and others that show credentials
	Playback int // requests under /v/
}

// Rate answers 429 with Retry-After to a client that asks more often than limits
// allow. It stands before the token is checked, so that guessing is counted, too. A
// client has as many requests at once as its limit, which come back evenly over 10 s.
// It counts in this process only: with n web roles a client gets up to n times as
// many. Health and pages are not counted; the sign-in is, because each way back makes us
// ask the issuer.
func Rate(limits Limits) gin.HandlerFunc {
	api, playback := newLimiter(limits.API), newLimiter(limits.Playback)
	return func(c *gin.Context) {
		path := c.Request.URL.Path
		var l *limiter
		switch {
		case strings.HasPrefix(path, "/v/"):
			l = playback
		case strings.HasPrefix(path, "/api/"), strings.HasPrefix(path, "/auth/"), c.GetHeader("Authorization") != "":
			l = api
		}
		if wait := l.wait(Client(c)); wait > 0 {
			problem.Abort(c, problem.New(problem.RateLimited, "At most %d requests in %v.", l.limit, rateWindow).After(int(wait/time.Second)+1))
		}
	}
}

// limiter has a token bucket for each client.
type limiter struct {
	limit   int
	clients *lru.Cache[netip.Prefix, *rate.Limiter]
}

// newLimiter returns nil, which lets everything through, for a limit of zero.
func newLimiter(limit int) *limiter {
	if limit <= 0 {
		return nil
	}
	clients, err := lru.New[netip.Prefix, *rate.Limiter](maxClients)
	if err != nil {
		panic(err) // maxClients is not positive
	}
	return &limiter{limit, clients}
}

// wait is how long a client has to wait before it may ask: 0 when it may now, which
// counts. A refused request costs nothing more.
func (l *limiter) wait(client netip.Prefix) time.Duration {
	if l == nil {
		return 0
	}
	bucket, known := l.clients.Get(client)
	if !known {
		bucket = rate.NewLimiter(rate.Limit(float64(l.limit)/rateWindow.Seconds()), l.limit)
		if other, exists, _ := l.clients.PeekOrAdd(client, bucket); exists { // another request was first
			bucket = other
		}
	}
	now := time.Now()
	reservation := bucket.ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}
