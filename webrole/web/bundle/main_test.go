package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// What is committed and embedded is what the sources make.
func TestScriptsAreBuilt(t *testing.T) {
	t.Chdir("..")
	made := t.TempDir()
	if code := bundle(made); code != 0 {
		t.Fatalf("esbuild ends with %d", code)
	}
	same(t, made, "static")
	same(t, "static", made)
}

// same compares every script of one folder with the one of that name in another.
func same(t *testing.T, in, with string) {
	t.Helper()
	built, err := filepath.Glob(filepath.Join(in, "*.js"))
	if err != nil || len(built) < len(scripts) {
		t.Fatalf("%s has %d scripts of %d: %v", in, len(built), len(scripts), err)
	}
	for _, script := range built {
		want, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(with, filepath.Base(script)))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from its sources: run `go generate ./webrole/web` (%v)", filepath.Base(script), err)
		}
	}
}

// The types of the sources hold, and those of the API are what its document says.
func TestTypes(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: runs the TypeScript compiler")
	}
	t.Parallel()
	web, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	node := func(script string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "node", append([]string{filepath.Join(web, "node_modules", script)}, args...)...)
		cmd.Dir = web
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v (`scripts/bootstrap test` installs it)\n%s", script, err, out)
		}
	}
	node("typescript/bin/tsc")
	made := filepath.Join(t.TempDir(), "api-types.ts")
	node("openapi-typescript/bin/cli.js", "../../docs/openapi.yaml", "-o", made)
	want, err := os.ReadFile(made)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../src/api-types.ts")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("src/api-types.ts is not what docs/openapi.yaml says: run `npm run types` in webrole/web (%v)", err)
	}
}
