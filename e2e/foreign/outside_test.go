package foreign_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

const shared = "github.com/cutroom/cutroom/shared"

// outside builds a program outside of the tree, in a module of its own that takes libraries of
// shared as `go get` would, with a replace in place of the download. It returns the folder.
func outside(t *testing.T, program []byte, libraries ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	mod, sum := "module example.com/letters\n\ngo 1.26.0\n", []byte{}
	for _, library := range libraries {
		path, err := filepath.Abs(filepath.Join("../../shared", library))
		if err != nil {
			t.Fatal(err)
		}
		mod += fmt.Sprintf("\nrequire %[1]s/%[2]s v0.1.0\nreplace %[1]s/%[2]s => %[3]s\n", shared, library, path)
		sum = append(sum, read(t, filepath.Join(path, "go.sum"))...)
	}
	write(t, dir, "go.mod", []byte(mod))
	write(t, dir, "go.sum", sum)
	write(t, dir, "main.go", program)
	goOutside(t, dir, "build", "-o", "program", ".")
	return dir
}

// goOutside runs the go command in a module outside of the tree.
func goOutside(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, &complaints)
	}
	return string(out)
}

// bringsOnly fails for packages in a program of outside that belong to the product or to what
// a library should leave to the program: exporters, web frameworks, test support.
func bringsOnly(t *testing.T, dir string, libraries ...string) {
	t.Helper()
	packages := strings.Fields(goOutside(t, dir, "list", "-deps", "."))
	within := func(path, tree string) bool { return path == tree || strings.HasPrefix(path, tree+"/") }
	for _, path := range packages {
		ours := strings.HasPrefix(path, strings.TrimSuffix(shared, "shared"))
		known := slices.ContainsFunc(libraries, func(library string) bool { return within(path, shared+"/"+library) })
		support := strings.HasSuffix(path, "test") || within(path, shared+"/azstore/azurite") || within(path, shared+"/azstore/inject")
		heavy := slices.ContainsFunc([]string{
			"go.opentelemetry.io/otel/exporters", "go.opentelemetry.io/otel/sdk", "github.com/gin-gonic/gin",
			"github.com/prometheus", "google.golang.org/grpc", "testing",
		}, func(tree string) bool { return within(path, tree) })
		if ours && (!known || support) || heavy {
			t.Errorf("the program would contain %s", path)
		}
	}
	for _, library := range libraries {
		if !slices.Contains(packages, shared+"/"+library) {
			t.Errorf("the program has no %s: what was looked at?", library)
		}
	}
	t.Logf("%d packages", len(packages))
}

// A stranger's program takes azstore alone, and nothing else of the tree comes with it. It has
// the code of the README in it, too, which compiles.
func TestAProgramTakesAzstore(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	code := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(read(t, "../../shared/azstore/README.md"))
	if code == nil {
		t.Fatal("the README has no code")
	}
	readme := fmt.Sprintf("\nfunc readme(ctx context.Context, letter any, path string) (err error) {\n%s"+
		"_, _, _ = ctx, etag, counter\nreturn err\n}\n", code[1])
	dir := outside(t, append(read(t, "testdata/azstore/main.go"), readme...), "azstore")
	bringsOnly(t, dir, "azstore")
	letters := start(t, []string{"LETTERS_PREFIX=" + a.Prefix()}, filepath.Join(dir, "program"))
	letters.says(t, "2026-12-24 true 3")
}
