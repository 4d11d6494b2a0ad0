package stack

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cutroom/cutroom/shared/azstore/azurite"
	"github.com/cutroom/cutroom/shared/azstore/settings"
)

// FromEnv returns the options of `make demo` and `make up`: the environment of this
// process, and the standard ports unless variables say otherwise. One error lists every
// bad variable.
func FromEnv(getenv func(string) string) (Options, error) {
	env := settings.Reader{Getenv: getenv}
	addr := func(name, unset string) string {
		text := env.Text(name, unset)
		if _, _, err := net.SplitHostPort(text); err != nil {
			env.Bad(name, fmt.Errorf("%q is not host:port", text))
		} else if _, err := resolve(text); err != nil {
			env.Bad(name, err)
		}
		return text
	}
	o := Options{
		WebAddr:         addr("WEBROLE_ADDR", "127.0.0.1:8080"),
		WebAdminAddr:    addr("WEBROLE_ADMIN_ADDR", "127.0.0.1:9090"),
		WorkerAdminAddr: addr("WORKERROLE_ADMIN_ADDR", "127.0.0.1:9091"),
		BlobPort:        env.Int("AZURITE_BLOB_PORT", 10000, 0, 65535), // 0: a free one
		QueuePort:       env.Int("AZURITE_QUEUE_PORT", 10001, 0, 65535),
		TablePort:       env.Int("AZURITE_TABLE_PORT", 10002, 0, 65535),
		Supervise:       true,
	}
	// The developer's own settings but those of another storage account, and of Azurite's
	// ports, which may be 0.
	o.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "AZURE_STORAGE_") || strings.HasPrefix(v, "AZURITE_")
	})
	var workers error
	o.Workers, o.MaxWorkers, workers = parseWorkers(env.Text("WORKERS", "2"))
	env.Bad("WORKERS", workers)
	return o, env.Err()
}

// mostWorkers is as many as the lab allows, too.
const mostWorkers = 8

// parseWorkers reads "3", or "1..4": as many as the queues want.
func parseWorkers(text string) (least, most int, err error) {
	from, to, ranged := strings.Cut(text, "..")
	if !ranged {
		to = from
	}
	least, err = strconv.Atoi(from)
	if err == nil {
		most, err = strconv.Atoi(to)
	}
	if err != nil || least < 1 || most < least || most > mostWorkers {
		return 0, 0, fmt.Errorf("%q: want a number from 1 to %d, or two of them, such as 1..4", text, mostWorkers)
	}
	return least, most, nil
}

// Environ is the environment of this process without the variables that configure
// Cutroom: a developer's settings do not change what is tested or measured.
func Environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return slices.ContainsFunc([]string{"CUTROOM_", "WEBROLE_", "WORKERROLE_", "AZURE_", "AZURITE_"},
			func(prefix string) bool { return strings.HasPrefix(v, prefix) })
	})
}

// checkPorts finds every port of the options that another process holds, before
// anything is built or started. The error names the variable to change, and a value that
// would work.
func (s *Stack) checkPorts() error {
	o := s.options
	type claim struct {
		label, variable, addr string
		portOnly              bool // the variable holds a port without a host
	}
	claims := []claim{
		{Azurite, "AZURITE_BLOB_PORT", loopback(o.BlobPort), true},
		{Azurite, "AZURITE_QUEUE_PORT", loopback(o.QueuePort), true},
		{Azurite, "AZURITE_TABLE_PORT", loopback(o.TablePort), true},
		{Web, "WEBROLE_ADDR", o.WebAddr, false},
		{Web, "WEBROLE_ADMIN_ADDR", o.WebAdminAddr, false},
	}
	if !s.ownStorage() {
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
		err = fmt.Errorf("start %s: %w", c.label, err)
		if free, freeErr := freeAddr(); freeErr == nil && errors.Is(err, azurite.ErrStranger) {
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

// Getenv is what every role finds in its environment.
func (s *Stack) Getenv(name string) string { return lastOf(s.baseEnv, name) }

// Secrets are those that roles of the stack were given in their environment: tokens, keys
// of sessions and playback, the token of a lab. Not the storage's key.
func (s *Stack) Secrets() (found []string) {
	s.mu.Lock()
	roles := slices.Collect(maps.Values(s.roles))
	s.mu.Unlock()
	for _, r := range roles {
		r.starting.Lock()
		for _, variable := range r.env {
			name, value, _ := strings.Cut(variable, "=")
			switch name {
			case "WEBROLE_TOKEN", "WORKERROLE_ADMIN_TOKEN", "WEBROLE_OIDC_CLIENT_SECRET", "WEBROLE_SESSION_KEYS", "WEBROLE_PLAYBACK_KEYS":
				found = append(found, strings.FieldsFunc(value, func(c rune) bool { return c == ',' || c == ' ' })...)
			case "CUTROOM_LAB":
				if u, err := url.Parse(value); err == nil {
					token, _ := u.User.Password()
					found = append(found, token)
				}
			}
		}
		r.starting.Unlock()
	}
	slices.Sort(found)
	return slices.DeleteFunc(slices.Compact(found), func(secret string) bool { return secret == "" })
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
