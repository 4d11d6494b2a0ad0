// Package azuritetest gives tests a real storage account: one emulator for the
// whole test binary, and for each test names of its own, which go when it ends.
//
//	func TestMain(m *testing.M) { azuritetest.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		t.Parallel()
//		account := azuritetest.Account(t)
//		…
//
// AZURITE_TEST may hold the connection string of an emulator that runs already, for the test
// binaries of many packages to share. It may be behind something that makes faults;
// AZURITE_TEST_CALM then is the same emulator without them. Without an emulator tests fail.
// With -short they skip themselves, unless one runs already.
package azuritetest

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azurite"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

// Variables name an emulator to use instead of starting one.
const (
	Variable     = "AZURITE_TEST"
	CalmVariable = "AZURITE_TEST_CALM"
)

var (
	start  sync.Once
	server *azurite.Server
	failed error
)

// connection returns the connection string of the binary's emulator.
func connection() (string, error) {
	if s := os.Getenv(Variable); s != "" {
		return s, nil
	}
	start.Do(func() { server, failed = azurite.Start(context.Background(), azurite.Options{InMemory: true}) })
	if failed != nil {
		return "", failed
	}
	return server.ConnectionString(), nil
}

// lacking reports whether tests have to do without an emulator.
func lacking() bool { return testing.Short() && os.Getenv(Variable) == "" }

// ConnectionString starts the emulator if need be, for tests that hand it to a
// process of their own.
func ConnectionString(t testing.TB) string {
	t.Helper()
	if lacking() {
		t.Skip("needs the storage emulator, which -short does not start")
	}
	s, err := connection()
	if err != nil {
		t.Fatalf("start the emulator: %v", err)
	}
	return s
}

// Main runs the tests, stops the emulator and fails when goroutines are left. Where
// there is no emulator it leaves out examples, which cannot skip themselves.
func Main(m *testing.M) {
	flag.Parse()
	if lacking() {
		_ = flag.Set("test.skip", "^Example")
	}
	code := m.Run()
	for _, a := range examples {
		if err := Clean(context.Background(), a); err != nil {
			fmt.Fprintf(os.Stderr, "clean up after an example: %v\n", err)
			code = 1
		}
		a.CloseIdle()
	}
	if server != nil {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	inject.CloseIdle()
	http.DefaultClient.CloseIdleConnections()
	if code == 0 {
		err := goleak.Find()
		// An emulator that stays closes connections when they were idle for 5 s.
		for end := time.Now().Add(10 * time.Second); err != nil && os.Getenv(Variable) != "" && time.Now().Before(end); {
			err = goleak.Find()
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "goroutines are left after the tests: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Account opens the emulator with a prefix of the test's own. Everything under
// the prefix is deleted when the test ends.
func Account(t testing.TB) *azstore.Account {
	t.Helper()
	return AccountWith(t, func(*azstore.Config) {})
}

var examples []*azstore.Account

// Example is Account for a runnable example, which has no testing.T: it panics when
// there is no emulator, and Main deletes what the example made.
func Example() *azstore.Account {
	s, err := connection()
	if err != nil {
		panic(err)
	}
	a, err := azstore.Open(azstore.Config{ConnectionString: s, Prefix: Prefix()})
	if err != nil {
		panic(err)
	}
	examples = append(examples, a) // examples run one after another
	return a
}

// AccountWith is Account with a changed configuration, for example with a
// transport that makes faults. A Prefix that change sets is used as it is, so
// that two accounts can share names; cleaning up goes without the faults. With a
// Retry of its own a test is about just that: it gets the faults that it makes
// and, from CalmVariable, no others.
func AccountWith(t testing.TB, change func(*azstore.Config)) *azstore.Account {
	t.Helper()
	cfg := azstore.Config{ConnectionString: ConnectionString(t), Prefix: Prefix()}
	plain := cfg
	if calm := os.Getenv(CalmVariable); calm != "" {
		plain.ConnectionString = calm
	}
	change(&cfg)
	if cfg.Retry != (azstore.Retry{}) {
		cfg.ConnectionString = plain.ConnectionString
	}
	plain.Prefix = cfg.Prefix
	a, err := azstore.Open(cfg)
	if err != nil {
		t.Fatalf("open the emulator: %v", err)
	}
	cleaner, err := azstore.Open(plain)
	if err != nil {
		t.Fatalf("open the emulator: %v", err)
	}
	t.Cleanup(func() {
		a.CloseIdle()
		defer cleaner.CloseIdle()
		ctx, cancel := context.WithTimeout(context.Background(), Patience(time.Minute))
		defer cancel()
		if err := Clean(ctx, cleaner); err != nil {
			t.Errorf("clean up after the test: %v", err)
		}
	})
	return a
}

// Prefix returns a random prefix that is valid for every kind of name.
func Prefix() string { return fmt.Sprintf("t%09x", rand.Uint64()&0xfffffffff) }

// Clean deletes every container, queue and table under the account's prefix,
// which must not be empty.
func Clean(ctx context.Context, a *azstore.Account) error { return azurite.Clean(ctx, a) }
