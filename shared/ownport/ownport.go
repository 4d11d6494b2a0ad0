// Package ownport answers whether a listening port belongs to a certain process.
// Anyone who starts a server as a child and then talks to "its" port must know that
// it is not talking to a stranger that had the port first. Used by tests and by
// the stack runner, never by a role.
package ownport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// ErrStranger says that another process listens on the port.
var ErrStranger = errors.New("another process listens on this port")

// ErrHidden says that the process keeps its open files from us, as the worker role does:
// anyone who talks to it must recognise it by what it answers.
var ErrHidden = errors.New("the process does not show its open files")

// Free returns a port on loopback that is not in use at this moment. It can
// be taken before it is used; Wait finds that out.
func Free() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Taken reports whether a process accepts connections on a loopback port.
func Taken(port int) bool {
	c, err := net.DialTimeout("tcp", address(port), time.Second)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// Wait waits until the process pid, or a child of it, listens on the port.
// Returns ErrStranger at once when another process does, ErrHidden when that cannot be
// found out, and an error when ctx
// ends or exited is closed before any process does.
func Wait(ctx context.Context, port, pid int, exited <-chan struct{}) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if Taken(port) {
			own, err := Owns(pid, port)
			if err != nil {
				return err
			}
			if own {
				return nil
			}
			// The child may have forked and not listened yet, but a port has
			// one listener, and it is not ours.
			return fmt.Errorf("port %d: %w", port, ErrStranger)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for port %d: %w", port, ctx.Err())
		case <-exited:
			return fmt.Errorf("wait for port %d: the process ended", port)
		case <-tick.C:
		}
	}
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
