package middleware

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// Connections bounds how many connections each client has open. A connection costs
// memory and a descriptor before it sends anything, so no limit of requests counts it.
// One beyond the bound is closed at once, without an answer. Those of trusted proxies do
// not count: many clients share them, and the proxy has to bound its own clients.
type Connections struct {
	most    int // 0: no bound
	proxies Proxies
	refused func()

	mu   sync.Mutex
	open map[netip.Prefix]int
}

// NewConnections returns a bound of most connections for each address, of IPv6 for each
// /64 network. Zero is no bound. refused is called for each that is closed.
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
