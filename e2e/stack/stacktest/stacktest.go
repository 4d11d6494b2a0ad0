// Package stacktest runs a stack for a test: built once per test binary, in a
// temporary folder, on free ports, gone when the test ends.
//
//	func TestMain(m *testing.M) { stacktest.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		s := stacktest.Start(t, stack.Options{Workers: 2})
//		…
package stacktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// BinVariable names a folder with roles that are built already, so that several
// test binaries share them: scripts/test sets it. Linking both takes a core 6 s.
const BinVariable = "CUTROOM_TEST_BIN"

var (
	bin   string // set by Main
	build sync.Once
	built error
)

// Main runs the tests of a package, then removes the roles that were built for it.
func Main(m *testing.M) {
	os.Exit(Run(m))
}

// Run is Main for a TestMain that has something of its own to do: it returns the exit code.
func Run(m *testing.M) int {
	if bin = os.Getenv(BinVariable); bin != "" {
		build.Do(func() {})
		return m.Run()
	}
	var err error
	if bin, err = os.MkdirTemp("", "cutroom-bin-"); err != nil {
		fmt.Fprintln(os.Stderr, "make a folder for the built roles:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(bin) }()
	return m.Run()
}

// Bin is the folder that holds the built roles. It builds them on first use.
func Bin(t testing.TB) string {
	t.Helper()
	if bin == "" {
		t.Fatal("the package needs: func TestMain(m *testing.M) { stacktest.Main(m) }")
	}
	build.Do(func() { built = stack.Build(context.Background(), bin) })
	if built != nil {
		t.Fatal(built)
	}
	return bin
}

// CopyRoles puts roles that are built already into dir, where a program under test would build
// them: it finds them up to date, and does not link them again.
func CopyRoles(t testing.TB, dir string) {
	t.Helper()
	built := os.Getenv(BinVariable)
	if built == "" {
		return
	}
	if err := os.CopyFS(dir, os.DirFS(built)); err != nil {
		t.Fatal(err)
	}
}

// Start starts a stack, and stops it when the test ends. Empty options get the
// built roles, the clean environment and a folder of the test's own. When the
// test failed the end of every log is shown. Only -short skips.
func Start(t testing.TB, o stack.Options) *stack.Stack {
	t.Helper()
	s, err := stack.Start(t.Context(), Complete(t, o))
	if err != nil {
		t.Fatalf("start the stack: %v", err)
	}
	StopAfter(t, s)
	return s
}

// Complete is the options that Start would use, for stacks that are started otherwise.
func Complete(t testing.TB, o stack.Options) stack.Options {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: this test runs Azurite and the built roles")
	}
	if o.Bin == "" {
		o.Bin = Bin(t)
	}
	if o.Dir == "" { // a test that brings one may start another stack with what is in it
		o.Dir, o.InMemory = t.TempDir(), !o.Supervise
	}
	o.Env = append([]string{Unhurried()}, o.Env...)
	return o
}

// Unhurried is a setting of web roles: requests have the time that a busy machine needs.
func Unhurried() string {
	return "WEBROLE_REQUEST_TIMEOUT=" + min(azuritetest.Patience(9*time.Second), 10*time.Minute).Truncate(time.Second).String()
}

// RealTime is a setting of workers, for tests that must see work under way: ffmpeg reads
// what it encodes no faster than it plays, which costs no processor time. The sandbox lets
// no program start another one, so a script that sleeps would not do.
func RealTime(t testing.TB) string {
	t.Helper()
	ffmpeg, err := exec.LookPath("ffmpeg")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ffmpeg")
	script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *libx264*) exec %[1]s -re \"$@\" ;; esac\nexec %[1]s \"$@\"\n", ffmpeg)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return "FFMPEG_PATH=" + path
}

// secret is what no log may contain: account keys, signatures of SAS, sessions, API
// keys, tokens of playback, credentials of requests, the address of a lab with its
// token. Azurite's own key is public, but anyone who logs that one logs any.
var secret = regexp.MustCompile(`AccountKey=[^*"&; ]|Eby8vdM02xNOcqFlqUwJPLlm|[?&]sig=[A-Za-z0-9%+/]{8}|__Host-(session|signin)=[^;" ]|` +
	`key_[a-z2-7]{12}_[a-z2-7]{8}|~eyJ[A-Za-z0-9_-]{8}|(?i:bearer|basic)(?: |%20|\+)[A-Za-z0-9._~+/=-]{16}|//lab:[^@*" ]+@`)

// Secret is the first thing in a text that looks like a secret, or "".
func Secret(text string) string { return secret.FindString(text) }

// NoSecrets fails the test when a role of s has written a secret into its log: one that
// looks like one, or that it was given.
func NoSecrets(t testing.TB, s *stack.Stack) {
	t.Helper()
	given := s.Secrets()
	for _, name := range s.Names() {
		for line := range strings.Lines(s.Logs(name)) {
			if Secret(line) != "" || slices.ContainsFunc(given, func(secret string) bool { return strings.Contains(line, secret) }) {
				t.Errorf("%s has a secret in its log: %s", name, line)
			}
		}
	}
}

// StopAfter stops s when the test ends, searches its logs for secrets, and shows them when
// the test failed.
func StopAfter(t testing.TB, s *stack.Stack) {
	t.Helper()
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stop the stack: %v", err)
		}
		NoSecrets(t, s)
		if t.Failed() {
			for _, name := range append(s.Names(), stack.Azurite) {
				if end := lastLines(s.Logs(name), 40); end != "" {
					t.Logf("%s:\n%s", name, end)
				}
			}
		}
	})
}

// Eventually waits for what is to happen: a minute on a machine at rest.
func Eventually(t testing.TB, condition string, done func() bool) {
	t.Helper()
	azuritetest.Eventually(t, time.Minute, func() error {
		if !done() {
			return errors.New("not yet: " + condition)
		}
		return nil
	})
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
