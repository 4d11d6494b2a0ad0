// Package settings reads a process's settings from its environment and keeps all
// mistakes, so that one error lists every bad variable.
package settings

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Reader reads variables through Getenv, which is os.Getenv or a test's own. An
// empty variable counts as unset. It is for one goroutine.
type Reader struct {
	Getenv func(string) string
	errs   []error
	bad    []string // variables whose mistake is noted
}

// Bad notes the first mistake in a variable. A nil error is none.
func (r *Reader) Bad(name string, err error) {
	if err != nil && !slices.Contains(r.bad, name) {
		r.bad = append(r.bad, name)
		r.errs = append(r.errs, fmt.Errorf("%s: %w", name, err))
	}
}

// Err returns all mistakes, or nil.
func (r *Reader) Err() error { return errors.Join(r.errs...) }

// Text returns a variable as it is.
func (r *Reader) Text(name, unset string) string { return cmp.Or(r.Getenv(name), unset) }

// Words returns a list, whose items commas or spaces separate.
func (r *Reader) Words(name string) []string {
	return strings.FieldsFunc(r.Getenv(name), func(c rune) bool { return c == ',' || c == ' ' })
}

// Keys returns a list of keys to sign with, of 32 characters or more.
func (r *Reader) Keys(name string) []string {
	all := r.Words(name)
	if slices.ContainsFunc(all, func(key string) bool { return len(key) < 32 }) {
		r.Bad(name, errors.New("a key has fewer than 32 characters"))
	}
	return all
}

// On returns whether a variable is on; it is off when it is unset.
func (r *Reader) On(name string) bool {
	text := r.Text(name, "off")
	if text != "on" && text != "off" {
		r.Bad(name, fmt.Errorf("%q is not on or off", text))
	}
	return text == "on"
}

// Parse returns what parse makes of a variable, which is empty when it is unset.
func Parse[T any](r *Reader, name string, parse func(string) (T, error)) T {
	v, err := parse(r.Getenv(name))
	r.Bad(name, err)
	return v
}

// Int returns a whole number from low to high.
func (r *Reader) Int(name string, unset, low, high int) int {
	return within(r, name, unset, low, high, strconv.Atoi, "a whole number")
}

// longest bounds what has no bound of its own: a hundred years.
const longest = 100 * 365 * 24 * time.Hour

// Duration returns a duration from low to high. A high of 0 is no bound.
func (r *Reader) Duration(name string, unset, low, high time.Duration) time.Duration {
	return within(r, name, unset, low, cmp.Or(high, longest), time.ParseDuration, "a duration such as 1h30m")
}

// MinToken is the least number of characters of a token that guards a listener.
const MinToken = 16

// CheckListener refuses the address of a listener that strangers could reach without a token,
// which variable has.
func CheckListener(addr, token, variable string) error {
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%q is not host:port", addr)
	case !IsLoopback(host) && len(token) < MinToken:
		return fmt.Errorf("%q is not on loopback: set %s, at least %d characters", addr, variable, MinToken)
	}
	return nil
}

// IsLoopback reports whether only this host can reach a listener at host. An empty host listens
// everywhere.
func IsLoopback(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }

func within[T cmp.Ordered](r *Reader, name string, unset, low, high T, parse func(string) (T, error), kind string) T {
	text := r.Getenv(name)
	if text == "" {
		return unset
	}
	v, err := parse(text)
	if err != nil || v < low || v > high {
		r.Bad(name, fmt.Errorf("%q: want %s, from %v to %v", text, kind, low, high))
		return unset
	}
	return v
}
