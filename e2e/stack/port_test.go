package stack

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// Another process has the port when the role wants it, and has let go of it when we
// look: the role must be tried on another one.
func TestPortLostForAMoment(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds and starts a process")
	}
	t.Parallel()
	dir := t.TempDir()
	// A role that loses its first port: it ends as after "address already in use".
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte(`package main

import ("fmt"; "net/http"; "os")

func main() {
	if first, err := os.OpenFile("lost", os.O_CREATE|os.O_EXCL, 0o600); err == nil {
		_ = first.Close()
		fmt.Println("listen: address already in use")
		os.Exit(1)
	}
	fmt.Println(http.ListenAndServe(os.Getenv("ROLE_ADDR"), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Cutroom-Instance", os.Getenv("CUTROOM_INSTANCE"))
	})))
}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "role")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	first, err := freeAddr()
	if err != nil {
		t.Fatal(err)
	}
	r := &role{name: "role", binary: binary, dir: dir, env: os.Environ(), listeners: []*listener{{variable: "ROLE_ADDR", addr: first, ours: true}}}
	ctx, cancel := context.WithTimeout(t.Context(), azuritetest.Patience(time.Minute))
	defer cancel()
	if err := r.start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.stop(5 * time.Second) })
	if now := r.listeners[0].addr; now == first {
		t.Errorf("the role is on %s, the port that it had lost", now)
	}

	// A port that was asked for is kept: the error is the caller's to solve.
	stranger, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Close() }()
	asked, err := resolve(stranger.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fixed := &role{name: "fixed", binary: binary, dir: dir, env: os.Environ(), listeners: []*listener{{variable: "ROLE_ADDR", addr: asked}}}
	if err := fixed.start(ctx); err == nil {
		_ = fixed.stop(5 * time.Second)
		t.Errorf("a role starts on %s, which a stranger has", asked)
	}
}
