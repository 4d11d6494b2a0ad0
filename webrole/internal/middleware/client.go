package middleware

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
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

// Strings are the networks as [gin.Engine.SetTrustedProxies] takes them.
func (p Proxies) Strings() (all []string) {
	for _, network := range p {
		all = append(all, network.String())
	}
	return all
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
