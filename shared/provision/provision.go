// Package provision makes everything that a stack keeps in its storage account. It
// lists the containers and tables of no feature. The queues are in workflow.Specs; package
// azq makes them, and the container and table that they need.
package provision

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/workers"
	"github.com/cutroom/cutroom/shared/videostore"
)

// Containers and Tables are the base names, without those of package azq.
var (
	Containers = []string{engine.SourcesContainer, engine.MediaContainer, azq.ClaimsContainer, azq.ControlContainer}
	Tables     = append([]string{
		workers.Table, catalog.CatalogTable, catalog.RecentTable, tablestore.UnreadableTable,
	}, videostore.Tables...)
)

// Ensure makes whatever a fresh account lacks, with the tables of features. Every role calls
// it at its start; repeating it is no error.
func Ensure(ctx context.Context, account *azstore.Account, queues *azq.Client, features ...string) error {
	if err := queues.Ensure(ctx); err != nil {
		return err
	}
	return account.Ensure(ctx, azstore.Names{Containers: Containers, Tables: slices.Concat(Tables, features)})
}

// A role assignment on Azure counts some minutes after it was made, so a role that is
// deployed together with its rights is refused at first.
const (
	rightsPatience = 10 * time.Minute
	rightsPause    = 5 * time.Second
	wrongKey       = "AuthenticationFailed" // storage's code for a signature that does not match
)

// Await is Ensure for the start of a role: while rights are missing (403) it asks again,
// for ten minutes. Meanwhile the role is alive and not ready: admin, which is its
// listener for operators, answers /livez with 200 and all else with 503 and the reason. It is
// free again when Await returns. Safe to repeat. A wrong key fails at once.
func Await(ctx context.Context, account *azstore.Account, queues *azq.Client, features []string, admin string) error {
	return await(ctx, rightsPatience, rightsPause, admin, func() error { return Ensure(ctx, account, queues, features...) })
}

func await(ctx context.Context, patience, pause time.Duration, admin string, ensure func() error) error {
	err := ensure()
	if !refused(err) {
		return err
	}
	stop, failed := answerNotReady(ctx, admin)
	if failed != nil {
		return errors.Join(err, failed)
	}
	defer stop()
	for began := time.Now(); refused(err) && time.Since(began) < patience; err = ensure() {
		slog.WarnContext(ctx, "storage refuses this role so far; a new assignment counts after some minutes", "error", err)
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for rights: %w", ctx.Err())
		case <-time.After(pause):
		}
	}
	return err
}

// refused tells rights that are missing, which may come, from a wrong key, which stays wrong.
func refused(err error) bool {
	status, code, answered := azstore.Describe(err)
	return answered && status == http.StatusForbidden && code != wrongKey
}

// answerNotReady listens until stop is called.
func answerNotReady(ctx context.Context, addr string) (stop func(), _ error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen while rights are missing: %w", err)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/livez" {
			http.Error(w, "storage refuses this role's identity so far", http.StatusServiceUnavailable)
		}
	})
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	return func() { _ = server.Close() }, nil
}
