// Package process is the main function of both roles.
package process

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/cutroom/cutroom/shared/logging"
	"github.com/cutroom/cutroom/shared/product"
)

// healthCommand makes a role ask its own listener instead of serving: the images of
// containers have no shell and no curl.
const healthCommand = "healthcheck"

// Main runs a role until SIGINT or SIGTERM, or does what the first argument says: prints the
// version, or checks the health of the role that listens for operators at the address in the
// variable adminVar, which is adminAddr when it is unset.
func Main(role, adminVar, adminAddr string, run func(ctx context.Context, getenv func(string) string) error) {
	log, _ := logging.New(os.Stderr, os.Getenv) // run says what is wrong
	slog.SetDefault(log)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	switch args := append(os.Args[1:], "", ""); args[0] {
	case "--version":
		fmt.Println(product.Name, role, product.Version())
	case healthCommand:
		err = Ask(ctx, cmp.Or(os.Getenv(adminVar), adminAddr), cmp.Or(args[1], "readyz"))
	default:
		err = run(ctx, os.Getenv)
	}
	stop()
	if err != nil {
		slog.Error(role+" stopped", "error", err)
		os.Exit(1)
	}
}

// timeout is shorter than what containers usually wait.
const timeout = 4 * time.Second

// Ask returns nil if the role that listens on addr, its admin address, answers 200 to path,
// which is "livez" or "readyz". It asks on loopback when the role listens on every address.
func Ask(ctx context.Context, addr, path string) error {
	if path = strings.TrimPrefix(path, "/"); path != "readyz" && path != "livez" {
		return fmt.Errorf("%s: want nothing, livez or readyz after it", healthCommand)
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
		reason, _ := io.ReadAll(io.LimitReader(res.Body, 500))
		return fmt.Errorf("%s answers %s: %s", path, res.Status, strings.TrimSpace(string(reason)))
	}
	return nil
}
