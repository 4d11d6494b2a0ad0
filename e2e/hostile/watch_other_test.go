//go:build !linux

package hostile_test

import (
	"net/netip"
	"testing"

	"github.com/cutroom/cutroom/e2e/stack"
)

// watch sees nothing here: only Linux tells what a program has open.
type watch struct{}

func observe(*testing.T, *stack.Stack, string) *watch { return new(watch) }

func (*watch) check(t *testing.T, _ string, _ []netip.AddrPort) {
	t.Log("what programs open is looked at on Linux only")
}
