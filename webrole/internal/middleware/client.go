package middleware

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/jellydator/ttlcache/v3"
	"golang.org/x/time/rate"

	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// Proxies are the addresses of the proxies before this role, whose word about the
// client counts. The zero value trusts none.
type Proxies []netip.Prefix

// ParseProxies reads a list of addresses and networks such as 10.0.0.7, 10.0.0.0/8 or
// fd00::/8, which commas or spaces separate.
func ParseProxies(list string) (Proxies, error) {
	var all Proxies
	for _, text := range strings.FieldsFunc(list, func(c rune) bool { return c == ',' || c == ' ' }) {
		p, err := netip.ParsePrefix(text)
		if addr, addrErr := netip.ParseAddr(text); addrErr == nil {
			p, err = addr.Prefix(addr.BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("%q is no address and no network such as 10.0.0.0/8", text)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}

// Include reports whether an address is in one of the networks.
func (p Proxies) Include(addr netip.Addr) bool {
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(addr) })
}

// Client is what a request counts as. Without a trusted proxy ([gin.Engine.SetTrustedProxies])
// that is the other end of the connection, whatever headers say. Behind one, Gin reads
// X-Forwarded-For from its end, where the nearest proxy wrote: the first address that is no
// trusted proxy is the client, and what stands before it is hearsay.
func Client(c *gin.Context) netip.Prefix {
	client, _ := netip.ParseAddr(c.ClientIP()) // invalid without a connection: in tests
	return network(client.Unmap())
}

// network is what counts as one client: an address, of IPv6 its /64, because the holder of
// one address has all of them.
func network(client netip.Addr) netip.Prefix {
	bits := client.BitLen()
	if client.Is6() {
		bits = 64
	}
	all, _ := client.Prefix(bits) // of an invalid address: the zero prefix, one client for all
	return all
}

// Connections bounds how many connections each client has open. A connection costs
// memory and a descriptor before it sends anything, so no limit of requests counts it.
// Those of trusted proxies do not count: a proxy has to bound its own clients.
type Connections struct {
	most    int // 0: no bound
	proxies Proxies
	refused func()

	mu   sync.Mutex
	open map[netip.Prefix]int
}

// NewConnections returns a bound of most connections for each client; zero is no bound. One
// beyond it is closed at once, without an answer, and refused is called.
func NewConnections(most int, proxies Proxies, refused func()) *Connections {
	return &Connections{most: most, proxies: proxies, refused: refused, open: map[netip.Prefix]int{}}
}

// Track is for http.Server.ConnState.
func (c *Connections) Track(conn net.Conn, state http.ConnState) {
	if c.most == 0 || state != http.StateNew && state != http.StateClosed && state != http.StateHijacked {
		return
	}
	peer, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil || c.proxies.Include(peer.Addr().Unmap()) {
		return
	}
	client := network(peer.Addr().Unmap())
	c.mu.Lock()
	defer c.mu.Unlock()
	if state != http.StateNew {
		if c.open[client]--; c.open[client] <= 0 {
			delete(c.open, client)
		}
		return
	}
	c.open[client]++
	if c.open[client] > c.most {
		c.refused()
		_ = conn.Close() // the server notices, and says StateClosed
	}
}

const rateWindow = 10 * time.Second

// maxClients bounds a limiter's memory, to some 20 MB. Beyond it the client that was silent
// longest is forgotten: for a fresh start a client needs as many addresses within the window.
const maxClients = 1 << 16

// Limits are how many requests a client may make in 10 s. Zero is no limit.
type Limits struct {
	API      int // requests under /api/ and /auth/, and others that show credentials
	Playback int // requests under /v/
}

// Rate answers 429 with Retry-After to a client that asks more often than limits
// allow. It stands before the token is checked, so that guessing is counted, too. A
// client has as many requests at once as its limit, which come back evenly over 10 s; with
// n web roles up to n times as many. Health and pages are not counted; the sign-in is,
// because each way back makes us ask the issuer.
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

type limiter struct {
	limit   int
	clients *ttlcache.Cache[netip.Prefix, *rate.Limiter] // each while it has asked for some of its requests
}

// newLimiter returns nil, which lets everything through, for a limit of zero.
func newLimiter(limit int) *limiter {
	if limit <= 0 {
		return nil
	}
	return &limiter{limit, ttlcache.New(
		ttlcache.WithCapacity[netip.Prefix, *rate.Limiter](maxClients), ttlcache.WithTTL[netip.Prefix, *rate.Limiter](rateWindow),
	)}
}

// wait is how long a client has to wait before it may ask: 0 when it may now, which
// counts. A refused request costs nothing more.
func (l *limiter) wait(client netip.Prefix) time.Duration {
	if l == nil {
		return 0
	}
	known, _ := l.clients.GetOrSet(client, rate.NewLimiter(rate.Limit(float64(l.limit)/rateWindow.Seconds()), l.limit))
	bucket := known.Value()
	if bucket.Allow() {
		return 0
	}
	return time.Duration((1 - bucket.Tokens()) / float64(bucket.Limit()) * float64(time.Second))
}
