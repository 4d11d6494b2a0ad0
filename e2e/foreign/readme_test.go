package foreign_test

import (
	"bytes"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

const readme = "../../shared/azq/README.md"

var theProgram = regexp.MustCompile("(?s)```go\n(package main\n.*?)```")

// The README's first program is the example hello. It works as the README says: outside of the
// tree, in a module that needs the two libraries alone, and in at most 25 lines.
func TestTheProgramOfTheReadmeRuns(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	dir := outside(t, programOfTheReadme(t), "azstore", "azq")
	bringsOnly(t, dir, "azstore", "azq")
	letters := start(t, []string{"HELLO_PREFIX=" + a.Prefix()}, filepath.Join(dir, "program"))
	letters.says(t, "Dear Ada")
	azqtest.WaitEmpty(t, azq.OpenQueue(a, azq.Spec{Name: "default"}))
	if err := letters.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("it has ended: %v", err)
	}
}

func programOfTheReadme(t *testing.T) []byte {
	t.Helper()
	found := theProgram.FindSubmatch(read(t, readme))
	if found == nil {
		t.Fatal("the README has no program")
	}
	source := found[1]
	for _, other := range []string{"../../examples/hello/main.go", "../../README.md"} {
		if !bytes.Contains(read(t, other), source) {
			t.Errorf("the program of the README is not that of %s", other)
		}
	}
	lines := 0
	for line := range strings.Lines(string(source)) {
		if strings.TrimSpace(line) != "" {
			lines++
		}
	}
	if lines > 25 {
		t.Errorf("the program has %d lines", lines)
	}
	if formatted, err := format.Source(source); err != nil || !bytes.Equal(formatted, source) {
		t.Errorf("gofmt would change the program: %v", err)
	}
	return source
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func write(t *testing.T, dir, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// What is around each further piece of the README's code, in its order.
var around = []string{
	"func send(ctx context.Context, letters []Letter) error {\n%s\n_, _ = id, ids\nreturn err\n}",
	"func long(ctx context.Context, pages []int, job *azq.Job[Letter]) error {\n%s\nreturn nil\n}",
	"var queues = \n%s",
	"%s",
	"func subscribe() {\n%s\n_, _ = events, stop\n}",
	"func mount(mux *http.ServeMux, onlyOperators func(http.Handler) http.Handler) {\n%s\n}",
}

// The README's other pieces of code compile beside its program. An ellipsis stands for nil.
func TestTheCodeOfTheReadmeCompiles(t *testing.T) {
	t.Parallel()
	dir := outside(t, programOfTheReadme(t), "azstore", "azq")
	pieces := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(read(t, readme), -1)[1:]
	if len(pieces) != len(around) {
		t.Fatalf("the README has %d pieces of code after its program, and here are %d", len(pieces), len(around))
	}
	var source strings.Builder
	fmt.Fprintf(&source, "package main\n\nimport (\n\"context\"\n\"log\"\n\"net/http\"\n\"time\"\n%q\n%q\n)\n\nvar client *azq.Client\n",
		shared+"/azq", shared+"/azq/azqops")
	for i, piece := range pieces {
		fmt.Fprintf(&source, "\n"+around[i]+"\n", bytes.ReplaceAll(piece[1], []byte("{ … }"), []byte("{ return nil }")))
	}
	write(t, dir, "readme.go", []byte(source.String()))
	goOutside(t, dir, "build", "-o", "program", ".")
}
