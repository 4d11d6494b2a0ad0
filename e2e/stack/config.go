package stack

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/cutroom/cutroom/shared/ownport"
)

// FromEnv returns the options of `make demo` and `make up`: the standard ports
// unless variables say otherwise. One error lists every bad variable.
func FromEnv(getenv func(string) string) (Options, error) {
	var problems []error
	port := func(name string, fallback int) int {
		text := getenv(name)
		if text == "" {
			return fallback
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > 65535 {
			problems = append(problems, fmt.Errorf("%s=%q is not a port from 0 (a free one) to 65535", name, text))
		}
		return n
	}
	addr := func(name, fallback string) string {
		text := getenv(name)
		if text == "" {
			return fallback
		}
		if _, _, err := net.SplitHostPort(text); err != nil {
			problems = append(problems, fmt.Errorf("%s=%q is not host:port", name, text))
		} else if _, err := resolve(text); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		}
		return text
	}
	o := Options{
		WebAddr:         addr("WEBROLE_ADDR", "127.0.0.1:8080"),
		WebAdminAddr:    addr("WEBROLE_ADMIN_ADDR", "127.0.0.1:9090"),
		WorkerAdminAddr: addr("WORKERROLE_ADMIN_ADDR", "127.0.0.1:9091"),
		BlobPort:        port("AZURITE_BLOB_PORT", 10000),
		QueuePort:       port("AZURITE_QUEUE_PORT", 10001),
		TablePort:       port("AZURITE_TABLE_PORT", 10002),
		Workers:         2,
	}
	return o, errors.Join(problems...)
}

// checkPorts finds every port of the options that somebody else holds, before
// anything is built or started. The error names the holder where the system
// tells it, the variable to change, and a value that would work.
func (s *Stack) checkPorts() error {
	o := s.options
	type claim struct {
		what, variable, addr string
		portOnly             bool // the variable holds a port without a host
	}
	claims := []claim{
		{Azurite, "AZURITE_BLOB_PORT", loopback(o.BlobPort), true},
		{Azurite, "AZURITE_QUEUE_PORT", loopback(o.QueuePort), true},
		{Azurite, "AZURITE_TABLE_PORT", loopback(o.TablePort), true},
		{Web, "WEBROLE_ADDR", o.WebAddr, false},
		{Web, "WEBROLE_ADMIN_ADDR", o.WebAdminAddr, false},
	}
	if o.ConnectionString != "" {
		claims = claims[3:]
	}
	if o.Workers > 0 {
		claims = append(claims, claim{Worker(1), "WORKERROLE_ADMIN_ADDR", o.WorkerAdminAddr, false})
	}
	var problems []error
	for _, c := range claims {
		if c.addr == "" {
			continue
		}
		addr, err := resolve(c.addr)
		if err == nil {
			err = checkFree(addr)
		}
		if err == nil {
			continue
		}
		err = fmt.Errorf("start %s: %w", c.what, err)
		if free, freeErr := freeAddr(); freeErr == nil && errors.Is(err, ownport.ErrStranger) {
			value := free.String()
			if c.portOnly {
				value = strconv.Itoa(int(free.Port()))
			}
			err = fmt.Errorf("%w; stop that process or choose another port, for example %s=%s", err, c.variable, value)
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
