package middleware

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
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

// Include reports whether a client is in one of the networks.
func (p Proxies) Include(client netip.Prefix) bool { return p.trusts(client.Addr()) }

func (p Proxies) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(addr) })
}

// Client is the address that sent r. Without a trusted proxy that is the other end of the
// connection, whatever headers say. Behind one, X-Forwarded-For is read from its
// end, where the nearest proxy wrote: the first address that is no trusted proxy is
// the client, and what stands before it is hearsay. An address of IPv6 is cut to its
// /64, because the holder of one address has all of them.
func (p Proxies) Client(r *http.Request) netip.Prefix {
	var client netip.Addr // stays invalid without a connection: in tests
	if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		client = peer.Addr().Unmap()
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && p.trusts(client); i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break // a proxy that says nonsense is counted itself
		}
		client = hop.WithZone("").Unmap()
	}
	return network(client)
}

// network is what counts as one client: an address, of IPv6 its /64.
func network(client netip.Addr) netip.Prefix {
	bits := client.BitLen()
	if client.Is6() {
		bits = 64
	}
	all, _ := client.Prefix(bits) // of an invalid address: the zero prefix, one client for all
	return all
}
