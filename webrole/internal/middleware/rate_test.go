package middleware

import (
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/webrole/internal/api"
)

// client is what a request counts as that comes through trusted proxies.
func client(t *testing.T, proxies Proxies, peer string, forwarded ...string) string {
	t.Helper()
	gin.SetMode(gin.TestMode)
	c, engine := gin.CreateTestContext(httptest.NewRecorder())
	engine.RemoteIPHeaders = []string{"X-Forwarded-For"}
	if err := engine.SetTrustedProxies(api.Each(proxies, netip.Prefix.String)); err != nil {
		t.Fatal(err)
	}
	c.Request = httptest.NewRequest(http.MethodGet, "/", nil)
	c.Request.RemoteAddr = peer
	for _, line := range forwarded {
		c.Request.Header.Add("X-Forwarded-For", line)
	}
	return Client(c).String()
}

func TestClientBehindProxies(t *testing.T) {
	t.Parallel()
	proxies, err := ParseProxies("10.0.0.0/8, 127.0.0.1 fd00::/8")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"no proxy", "192.0.2.1:5", nil, "192.0.2.1/32"},
		{"a stranger's word", "192.0.2.1:5", []string{"198.51.100.7"}, "192.0.2.1/32"},
		{"a trusted proxy", "10.0.0.7:5", []string{"198.51.100.7"}, "198.51.100.7/32"},
		{"what the client wrote before it", "10.0.0.7:5", []string{"203.0.113.9, 198.51.100.7"}, "198.51.100.7/32"},
		{"the client says it is a proxy", "10.0.0.7:5", []string{"10.1.1.1", "198.51.100.7"}, "198.51.100.7/32"},
		{"two proxies, two headers", "127.0.0.1:5", []string{"203.0.113.9, 198.51.100.7", "10.0.0.9"}, "198.51.100.7/32"},
		{"nonsense", "10.0.0.7:5", []string{"198.51.100.7, unknown"}, "10.0.0.7/32"},
		{"a proxy that says nothing", "10.0.0.7:5", nil, "10.0.0.7/32"},
		{"all trusted", "10.0.0.7:5", []string{"10.0.0.8"}, "10.0.0.8/32"},
		{"IPv6 by /64", "[2001:db8:1:2:3:4:5:6]:5", nil, "2001:db8:1:2::/64"},
		{"IPv6 behind IPv6", "[fd00::1]:5", []string{"2001:db8:1:2:ffff::9"}, "2001:db8:1:2::/64"},
		{"IPv4 in IPv6", "[::ffff:10.0.0.7]:5", []string{"::ffff:198.51.100.7"}, "198.51.100.7/32"},
	} {
		if got := client(t, proxies, c.peer, c.forwarded...); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	for _, bad := range []string{"nonsense", "10.0.0.0/33", "10.0.0.1:80", "example.org"} {
		if _, err := ParseProxies(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// FuzzClient: whatever strangers write, they can't choose who they are counted as.
func FuzzClient(f *testing.F) {
	f.Add("198.51.100.7", "192.0.2.1:5")
	f.Add("10.0.0.1, ::1, 10.0.0.2", "[2001:db8::1]:80")
	f.Add(",,fe80::1%zone,", "10.0.0.7:5")
	proxies := Proxies{netip.MustParsePrefix("10.0.0.0/8")}
	f.Fuzz(func(t *testing.T, forwarded, peer string) {
		got := client(t, proxies, peer, forwarded)
		addr, err := netip.ParseAddrPort(peer)
		if err == nil && !proxies.Include(addr.Addr().Unmap()) && got != client(t, proxies, peer) {
			t.Errorf("%s, which is no proxy, counts as %s because it says %q", peer, got, forwarded)
		}
	})
}

// TestManyAddressesResetNoLimit: a client that used its limit stays refused while a
// flood from other addresses passes, and each of those has a limit of its own.
func TestManyAddressesResetNoLimit(t *testing.T) {
	t.Parallel()
	l := newLimiter(3)
	ask := func(n uint32) bool {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], n)
		return l.wait(netip.PrefixFrom(netip.AddrFrom4(b), 32)) == 0
	}
	for range 3 {
		if !ask(1) {
			t.Fatal("refused below the limit")
		}
	}
	refused := 0
	for n := uint32(100); n < 100+maxClients/2; n++ {
		if !ask(n) {
			t.Fatal("another address is refused")
		}
		if n%1000 == 0 && !ask(1) {
			refused++
		}
	}
	if refused < 25 { // of 33; three and a third in 10 s come back
		t.Errorf("refused %d times only", refused)
	}
	for n := uint32(1 << 20); n < 1<<20+2*maxClients; n++ {
		ask(n)
	}
	if got := l.clients.Len(); got > maxClients {
		t.Errorf("%d clients are remembered, want at most %d", got, maxClients)
	}
}
