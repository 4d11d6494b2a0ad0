package web

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What is committed and embedded is what the sources make, by the commands in web.go.
func TestScriptsAreBuilt(t *testing.T) {
	commands, err := os.ReadFile("web.go")
	if err != nil {
		t.Fatal(err)
	}
	made := t.TempDir()
	var args []string
	for _, line := range regexp.MustCompile(`(?m)^//go:generate .*esbuild (--.*)$`).FindAllStringSubmatch(string(commands), -1) {
		args = append(args, strings.Fields(strings.Replace(line[1], "--outdir=static", "--outdir="+made, 1))...)
	}
	esbuild := exec.CommandContext(t.Context(), "go", append([]string{"tool", "esbuild"}, args...)...)
	if out, err := esbuild.CombinedOutput(); err != nil {
		t.Fatalf("esbuild: %v\n%s", err, out)
	}
	entries, _ := filepath.Glob("src/entry/*.ts")
	same(t, made, "static", len(entries))
	same(t, "static", made, len(entries))
}

// same compares every script of one folder with the one of that name in another.
func same(t *testing.T, in, with string, scripts int) {
	t.Helper()
	built, err := filepath.Glob(filepath.Join(in, "*.js"))
	if err != nil || len(built) < scripts || scripts == 0 {
		t.Fatalf("%s has %d scripts of %d: %v", in, len(built), scripts, err)
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
	node := func(script string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "node", append([]string{filepath.Join("node_modules", script)}, args...)...)
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
	got, err := os.ReadFile("src/api-types.ts")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("src/api-types.ts is not what docs/openapi.yaml says: run `npm run types` in webrole/web (%v)", err)
	}
}
