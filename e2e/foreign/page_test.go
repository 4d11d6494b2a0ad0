package foreign_test

import (
	"bytes"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

const (
	page   = "../../docs/take-the-runtime.md"
	shared = "github.com/cutroom/cutroom/shared"
	taken  = "example.com/letters"
)

var (
	theProgram = regexp.MustCompile("(?s)```go\n(.*?)```")
	folders    = regexp.MustCompile("copy the folders (.*) of `shared`")
	inCode     = regexp.MustCompile("`([a-z]+)`")
)

// The page's program works as the page says: with the folders that it names and
// nothing else of ours, in a module of its own.
func TestTheProgramOfThePageRuns(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	source, names := theProgram.FindSubmatch(text), folders.FindSubmatch(text)
	if source == nil || names == nil {
		t.Fatal("the page has no program or names no folders")
	}
	if n := bytes.Count(source[1], []byte("\n")); n > 40 {
		t.Errorf("the program has %d lines", n)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "main.go"), source[1])
	for _, name := range inCode.FindAllSubmatch(names[1], -1) {
		take(t, dir, string(name[1]))
	}
	for _, file := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join("../../shared", file))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, file), text)
	}
	if formatted, err := format.Source(source[1]); err != nil || !bytes.Equal(formatted, source[1]) {
		t.Errorf("gofmt would change the program: %v", err)
	}
	build := exec.Command("go", "build", "-mod=mod", "-o", "letters", ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}

	letters := start(t, []string{"LETTERS_PREFIX=" + a.Prefix()}, filepath.Join(dir, "letters"))
	letters.says(t, "Dear Ada")
	azqtest.WaitEmpty(t, azq.OpenQueue(a, azq.Spec{Name: "mail"}))
	letters.stop(t, syscall.SIGINT)
}

// take copies a folder of shared, without its tests and test support.
func take(t *testing.T, dir, folder string) {
	t.Helper()
	from := filepath.Join("../../shared", folder)
	err := filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(filepath.Dir(path), "test") {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil {
			write(t, filepath.Join(dir, strings.TrimPrefix(path, "../../shared")), text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// write writes a file with the module's new path in it.
func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(text, []byte(shared), []byte(taken)), 0o644); err != nil {
		t.Fatal(err)
	}
}
