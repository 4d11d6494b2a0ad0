// Package stacktest starts a stack for one test, with a user of it.
package stacktest

import (
	"testing"

	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
)

// Start starts a stack that stops with the test. Only -short skips.
func Start(t *testing.T, o stack.Options) (*stack.Stack, *journey.User) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a stack of processes, which -short leaves out")
	}
	s, err := stack.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	user, err := journey.New(s.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(user.Close)
	return s, user
}
