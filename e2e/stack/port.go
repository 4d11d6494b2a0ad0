package stack

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"

	"github.com/cutroom/cutroom/shared/azstore/azurite"
)

// freeAddr returns a loopback address that is not in use. It is below the
// range from which systems take the ports of outgoing connections, so it stays
// free until our child binds it, unless another stack draws the same number;
// starting a role then tries again with another.
func freeAddr() (netip.AddrPort, error) {
	for range 200 {
		addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(20000+rand.IntN(12000)))
		if checkFree(addr) == nil {
			return addr, nil
		}
	}
	return netip.AddrPort{}, fmt.Errorf("find a free port: 200 of those between 20000 and 32000 are taken")
}

// checkFree returns azurite.ErrStranger when a process listens on the port. Connecting
// comes first: on some systems binding succeeds next to a listener on every address.
func checkFree(addr netip.AddrPort) error {
	port := int(addr.Port())
	if port == 0 {
		return nil
	}
	if azurite.Taken(port) {
		return fmt.Errorf("port %d: %w", port, azurite.ErrStranger)
	}
	listener, err := net.Listen("tcp", addr.String())
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("port %d: %w", port, azurite.ErrStranger)
	}
	if err != nil {
		return fmt.Errorf("port %d: %w", port, err)
	}
	return listener.Close()
}

// resolve turns "localhost:8080", ":8080" or "127.0.0.1:8080" into an address.
func resolve(addr string) (netip.AddrPort, error) {
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("address %q: %w", addr, err)
	}
	resolved := tcp.AddrPort()
	ip := resolved.Addr().Unmap()
	if !ip.IsValid() {
		ip = netip.IPv4Unspecified()
	}
	return netip.AddrPortFrom(ip, resolved.Port()), nil
}
