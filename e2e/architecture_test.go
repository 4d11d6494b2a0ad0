package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/workflow"
)

const root = "github.com/cutroom/cutroom/"

// goPackage is what `go list -json` says about a package.
type goPackage struct {
	ImportPath   string
	Name         string
	Imports      []string // of the package itself
	TestImports  []string // of its tests
	XTestImports []string // of its tests in package x_test
	Deps         []string // everything that ends up in a binary, transitively
}

// allImports are the direct imports of the package and of its tests.
func (p goPackage) allImports() []string {
	return slices.Concat(p.Imports, p.TestImports, p.XTestImports)
}

// in reports whether the import path is the tree or below it; tree is relative
// to the repository, such as "shared" or "workerrole/internal/ffmpeg".
func in(importPath, tree string) bool {
	return importPath == root+tree || strings.HasPrefix(importPath, root+tree+"/")
}

func goList(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Name,Imports,TestImports,XTestImports,Deps",
		"./shared/...", "./shared/azq/...", "./shared/azq/cmd/azq/...", "./shared/azstore/...", "./webrole/...", "./workerrole/...", "./e2e/...", "./examples/...")
	cmd.Dir = ".."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var packages []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatalf("decoding the answer of go list: %v", err)
		}
		packages = append(packages, p)
	}
}

// Dependencies point one way: main → internal/* of the role → shared/* → shared/video →
// shared/engine → the libraries. docs/design.md explains why; `make lint` runs this test.
func TestArchitectureImportsPointOneWay(t *testing.T) {
	t.Parallel()
	rules := []struct {
		why     string
		from    string // a tree of this repository
		except  string // trees inside it that may, separated by spaces
		imports func(string) bool
	}{
		{"shared never imports a role", "shared", "", tree("webrole", "workerrole", "e2e", "examples")},
		{"an example needs the libraries only", "examples", "examples/core examples/files examples/images", func(path string) bool {
			return strings.HasPrefix(path, root) && !tree("shared/azstore", "shared/azq", "examples")(path)
		}},
		{"another product needs the engine and the libraries only", "examples/core", "", beyondTheEngine("examples/core")},
		{"another product needs the core, the engine and the libraries only", "examples/files", "", beyondTheEngine("examples/core")},
		{"another product needs the core, the engine and the libraries only", "examples/images", "", beyondTheEngine("examples/core")},
		{"roles never import each other", "webrole", "", tree("workerrole", "e2e")},
		{"roles never import each other", "workerrole", "", tree("webrole", "e2e")},
		{"the engine knows no product", "shared/engine", "", func(path string) bool {
			return strings.HasPrefix(path, root) && !tree("shared/azstore", "shared/azq", "shared/engine", "shared/testkit")(path)
		}},
		{"the domain's words use the standard library and the engine only", "shared/video", "", func(path string) bool {
			first, _, _ := strings.Cut(path, "/")
			return strings.Contains(first, ".") && !in(path, "shared/video") && !in(path, "shared/engine") && path != "github.com/google/go-cmp/cmp" &&
				!strings.HasPrefix(path, "pgregory.net/rapid")
		}},
		{"early work can be left out: only the mains register it", "shared", "shared/early", tree("shared/early")},
		{"early work can be left out: only the mains register it", "webrole/internal", "", tree("shared/early")},
		{"early work can be left out: only the mains register it", "workerrole/internal", "", tree("shared/early")},
		{"only one package drives ffmpeg", "", "workerrole/internal/ffmpeg", module("github.com/u2takey/ffmpeg-go")},
		{
			"only one package knows about credentials", "", "shared/azstore",
			module("github.com/Azure/azure-sdk-for-go/sdk/azidentity"),
		},
	}
	for _, p := range goList(t) {
		for _, rule := range rules {
			if rule.from != "" && !in(p.ImportPath, rule.from) || tree(strings.Fields(rule.except)...)(p.ImportPath) {
				continue
			}
			for _, path := range p.allImports() {
				if rule.imports(path) {
					t.Errorf("%s imports %s: %s", p.ImportPath, path, rule.why)
				}
			}
		}
	}
}

// beyondTheEngine says what another product has no need of, but for what it has itself.
func beyondTheEngine(own string) func(string) bool {
	return func(path string) bool {
		return strings.HasPrefix(path, root) && !tree("shared/azstore", "shared/azq", "shared/engine", own)(path)
	}
}

// A feature knows no other, but for one that joins two, and only main knows it.
func TestArchitectureFeaturesKnowNoOther(t *testing.T) {
	t.Parallel()
	const joining = "webrole/internal/feature/finishclips"
	seen := 0
	for _, p := range goList(t) {
		for _, path := range p.Imports {
			role, _, is := strings.Cut(path, "/internal/feature/")
			if !is {
				continue
			}
			seen++
			if p.ImportPath != role && p.ImportPath != root+joining {
				t.Errorf("%s imports %s: what two features share belongs below both", p.ImportPath, path)
			}
		}
	}
	if seen == 0 {
		t.Error("no feature is looked at")
	}
}

func tree(names ...string) func(string) bool {
	return func(path string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return in(path, name) })
	}
}

func module(names ...string) func(string) bool {
	return func(path string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return path == name || strings.HasPrefix(path, name+"/") })
	}
}

// The storage kit and the queue runtime are libraries: they know nothing of the product,
// and bring no exporter and no web framework.
func TestArchitectureLibrariesStandAlone(t *testing.T) {
	t.Parallel()
	floors := []struct{ library, own func(string) bool }{
		{tree("shared/azstore"), tree("shared/azstore")},
		{tree("shared/azq"), tree("shared/azq", "shared/azstore")},
	}
	heavy := module("go.opentelemetry.io/otel/exporters", "go.opentelemetry.io/otel/sdk", "github.com/gin-gonic/gin", "github.com/prometheus")
	seen := 0
	for _, p := range goList(t) {
		for _, floor := range floors {
			if !floor.library(p.ImportPath) {
				continue
			}
			seen++
			for _, path := range slices.Concat(p.allImports(), p.Deps) {
				if strings.HasPrefix(path, root) && !floor.own(path) || heavy(path) {
					t.Errorf("%s needs %s, which is no part of the library", p.ImportPath, path)
				}
			}
		}
	}
	if seen < 8 {
		t.Errorf("only %d packages looked at", seen)
	}
}

// Test support and Go's own testing package never reach a binary.
func TestArchitectureBinariesHoldNoTestSupport(t *testing.T) {
	t.Parallel()
	binaries := 0
	for _, p := range goList(t) {
		if p.Name != "main" {
			continue
		}
		binaries++
		for _, dep := range p.Deps {
			base := dep[strings.LastIndex(dep, "/")+1:]
			ours := strings.HasPrefix(dep, root) && strings.HasSuffix(base, "test")
			kit := tree("shared/testkit", "shared/azstore/azurite", "shared/azstore/inject")(dep) && !in(p.ImportPath, "e2e")
			if ours || kit || dep == "testing" {
				t.Errorf("%s would contain %s", p.ImportPath, dep)
			}
		}
	}
	t.Logf("%d binaries looked at", binaries)
}

// A package name says what is inside; these say nothing.
func TestArchitectureNoPackageWithoutAName(t *testing.T) {
	t.Parallel()
	for _, p := range goList(t) {
		if slices.Contains([]string{"util", "utils", "common", "helpers", "misc"}, p.Name) {
			t.Errorf("%s: name a package after what it holds", p.ImportPath)
		}
	}
}

// A scene comes off with its file, also when what it shows is gone: the commands build. Whole
// features: TestFeaturesComeOff in e2e/fork.
func TestArchitectureScenesComeOff(t *testing.T) {
	t.Parallel()
	for what, files := range map[string][]string{
		"the scene of races":     {"e2e/scenes/race.go", "shared/registrations/*"},
		"the scenes of search":   {"e2e/scenes/index.go", "e2e/scenes/film.go"},
		"the scene of parts":     {"e2e/scenes/growing.go"},
		"views, without a scene": {"shared/views/*"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			overlay := filepath.Join(t.TempDir(), "overlay.json")
			without(t, overlay, files)
			if out, err := exec.Command("go", "vet", "-overlay", overlay, "./cmd/...").CombinedOutput(); err != nil {
				t.Errorf("without %v: %v\n%s", files, err, out)
			}
		})
	}
}

// without makes an overlay for the go command in which files of the repository are gone. In a
// fork they may be gone already: then the tree itself must build.
func without(t *testing.T, overlay string, files []string) {
	t.Helper()
	gone := map[string]string{}
	for _, pattern := range files {
		found, err := filepath.Glob(filepath.Join("..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			path, err := filepath.Abs(file)
			if err != nil {
				t.Fatal(err)
			}
			gone[path] = ""
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": gone})
	if err == nil {
		err = os.WriteFile(overlay, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A function of more than 60 lines is split by what its parts do, or its comment
// has a line that says why not: "Over 60 lines: …".
func TestArchitectureLongFunctionsSayWhy(t *testing.T) {
	t.Parallel()
	const most = 60
	seen := 0
	eachSource(t, []string{"shared", "webrole", "workerrole", "e2e", "examples"}, func(_ string, file *ast.File, at func(token.Pos) token.Position) {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			seen++
			from, to := at(f.Pos()), at(f.End())
			if lines := to.Line - from.Line + 1; lines > most && !strings.Contains("\n"+f.Doc.Text(), "\nOver 60 lines: ") {
				t.Errorf("%s: %s has %d lines and does not say why", from, f.Name.Name, lines)
			}
		}
	})
	if seen < 500 {
		t.Errorf("only %d functions looked at", seen)
	}
}

// namesItself are the places beyond a step's declaration and its own file that have its
// name: a clip and captions are things that users ask for, with rows and quotas of
// their own, and the other words only look like a step.
var namesItself = map[string][]string{
	"shared/clips/clips.go":                         {"StepClip"},
	"shared/captions/captions.go":                   {"StepCaptions"},
	"shared/playlist/playlist.go":                   {"audio"},    // a playlist's name
	"shared/engine/workers/workers.go":              {"probe"},    // a row that shows that tables answer
	"workerrole/main.go":                            {"probe"},    // a blob that shows the same
	"workerrole/internal/ffmpeg/probe.go":           {"audio"},    // a kind of stream
	"workerrole/internal/media/audio.go":            {"audio"},    // a kind of track
	"shared/engine/runner/work.go":                  {"index"},    // a field of the log
	"webrole/internal/feature/captions/captions.go": {"captions"}, // a folder of addresses
}

// What a video's work is stands in one place: no other file of the product names a step.
func TestArchitectureStepsAreNamedWhereTheyAreDeclared(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	eachSource(t, []string{"shared", "webrole", "workerrole"}, func(path string, file *ast.File, at func(token.Pos) token.Position) {
		if strings.HasPrefix(path, "shared/workflow/") || strings.HasPrefix(path, "workerrole/internal/step/") || strings.HasPrefix(path, "workerrole/internal/feature/") {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			name := stepNamed(n)
			switch {
			case name == "":
			case slices.Contains(namesItself[path], name):
				found[path+" "+name] = true
			default:
				t.Errorf("%s names the step %s: let the declaration in shared/workflow say what is special about it", at(n.Pos()), name)
			}
			return true
		})
	})
	for path, names := range namesItself {
		for _, name := range names {
			if !found[path+" "+name] {
				t.Errorf("%s does not name %s any more: take it off the list", path, name)
			}
		}
	}
}

// stepNamed is the step that a piece of source names, as a constant or as a text; or "".
func stepNamed(n ast.Node) string {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		if from, ok := n.X.(*ast.Ident); ok && from.Name == "workflow" && strings.HasPrefix(n.Sel.Name, "Step") && n.Sel.Name != "Step" && n.Sel.Name != "Steps" {
			return n.Sel.Name
		}
	case *ast.BasicLit:
		if text, err := strconv.Unquote(n.Value); err == nil {
			if _, declared := workflow.Declaration.Find(text); declared {
				return text
			}
		}
	}
	return ""
}

// eachSource calls look for every file of those modules that are written by hand, without
// tests, with its path in the repository.
func eachSource(t *testing.T, modules []string, look func(path string, file *ast.File, at func(token.Pos) token.Position)) {
	t.Helper()
	files := token.NewFileSet()
	for _, module := range modules {
		err := filepath.WalkDir(filepath.Join("..", module), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
			if err != nil || ast.IsGenerated(file) {
				return err
			}
			look(filepath.ToSlash(path)[len("../"):], file, files.Position)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
