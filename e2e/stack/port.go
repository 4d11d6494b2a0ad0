package stack

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cutroom/cutroom/shared/ownport"
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

// checkFree returns ownport.ErrStranger, with the holder where the system tells
// it, when a process listens on the port. Connecting comes first: on some
// systems binding succeeds next to a listener on every address.
func checkFree(addr netip.AddrPort) error {
	port := int(addr.Port())
	if port == 0 {
		return nil
	}
	if !ownport.Taken(port) {
		listener, err := net.Listen("tcp", addr.String())
		if err == nil {
			return listener.Close()
		}
		if holder(port) == "" {
			return fmt.Errorf("port %d: %w", port, err)
		}
	}
	if who := holder(port); who != "" {
		return fmt.Errorf("port %d: %w (%s)", port, ownport.ErrStranger, who)
	}
	return fmt.Errorf("port %d: %w", port, ownport.ErrStranger)
}

// holder names the process that listens on a port, as far as we may see it;
// empty where there is no /proc.
func holder(port int) string {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return ""
	}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if owns, err := ownport.Owns(pid, port); err == nil && owns {
			name, _ := os.ReadFile(filepath.Join(dir, "comm"))
			return fmt.Sprintf("%s, pid %d", strings.TrimSpace(string(name)), pid)
		}
	}
	return ""
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
