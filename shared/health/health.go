// Package health is the health check of containers, whose images have no
// shell and no curl: each role asks its own listener when it is started with
// "healthcheck".
package health

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Command is the argument that makes a role ask instead of serve.
const Command = "healthcheck"

// timeout is shorter than what containers usually wait.
const timeout = 4 * time.Second

// Ask returns nil if the role that listens on addr, its admin address, answers 200 to
// what args name: "livez", or "readyz", which is the default. It asks on loopback when
// the role listens on every address.
func Ask(ctx context.Context, addr string, args ...string) error {
	path := "readyz"
	if len(args) > 0 {
		path = strings.TrimPrefix(args[0], "/")
	}
	if len(args) > 1 || path != "readyz" && path != "livez" {
		return fmt.Errorf("%s: want nothing, livez or readyz after it", Command)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("ask for health: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/"+path, nil)
	if err != nil {
		return fmt.Errorf("ask for health: %w", err)
	}
	direct := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // never through a proxy
	res, err := direct.Do(req)
	if err != nil {
		return fmt.Errorf("ask for health: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(res.Body, 500))
		return fmt.Errorf("%s answers %s: %s", path, res.Status, strings.TrimSpace(string(why)))
	}
	return nil
}
