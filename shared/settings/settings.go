// Package settings reads a process's settings from its environment and keeps all
// mistakes, so that one error lists every bad variable.
package settings

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Reader reads variables through Getenv, which is os.Getenv or a test's own. An
// empty variable counts as unset. It is for one goroutine.
type Reader struct {
	Getenv func(string) string
	errs   []error
}

// Bad notes a mistake in a variable. A nil error is none.
func (r *Reader) Bad(name string, err error) {
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", name, err))
	}
}

// Err returns all mistakes, or nil.
func (r *Reader) Err() error { return errors.Join(r.errs...) }

// Text returns a variable as it is.
func (r *Reader) Text(name, unset string) string {
	if v := r.Getenv(name); v != "" {
		return v
	}
	return unset
}

// Int returns a whole number from low to high.
func (r *Reader) Int(name string, unset, low, high int) int {
	text := r.Getenv(name)
	if text == "" {
		return unset
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		r.Bad(name, fmt.Errorf("%q: want a whole number from %d to %d", text, low, high))
		return unset
	}
	return n
}

// Duration returns a duration from low to high. A high of 0 is no bound.
func (r *Reader) Duration(name string, unset, low, high time.Duration) time.Duration {
	text := r.Getenv(name)
	if text == "" {
		return unset
	}
	d, err := time.ParseDuration(text)
	switch {
	case err == nil && d >= low && (high == 0 || d <= high):
		return d
	case high == 0:
		r.Bad(name, fmt.Errorf("%q: want a duration of at least %s, such as 1h30m", text, low))
	default:
		r.Bad(name, fmt.Errorf("%q: want a duration from %s to %s, such as 500ms", text, low, high))
	}
	return unset
}
