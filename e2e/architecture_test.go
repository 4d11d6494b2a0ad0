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
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
		"./shared/...", "./webrole/...", "./workerrole/...", "./e2e/...")
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

// Dependencies point one way: main → internal/* of the role → shared/* →
// shared/video. docs/design.md explains why; `make lint` runs this test.
func TestArchitectureImportsPointOneWay(t *testing.T) {
	t.Parallel()
	rules := []struct {
		why     string
		from    string // a tree of this repository
		except  string // a tree inside it that may, or ""
		imports func(string) bool
	}{
		{"shared never imports a role", "shared", "", tree("webrole", "workerrole", "e2e")},
		{"roles never import each other", "webrole", "", tree("workerrole", "e2e")},
		{"roles never import each other", "workerrole", "", tree("webrole", "e2e")},
		{"the domain's words use the standard library only", "shared/video", "", func(path string) bool {
			first, _, _ := strings.Cut(path, "/")
			return strings.Contains(first, ".") && !in(path, "shared/video") && path != "github.com/google/go-cmp/cmp" &&
				!strings.HasPrefix(path, "pgregory.net/rapid")
		}},
		{"only one package drives ffmpeg", "", "workerrole/internal/ffmpeg", module("github.com/u2takey/ffmpeg-go")},
		{"only one package knows about credentials", "", "shared/azstorage", module("github.com/Azure/azure-sdk-for-go/sdk/azidentity")},
		{"roles do not start Azurite", "webrole", "", tree("shared/azurite")},
		{"roles do not start Azurite", "workerrole", "", tree("shared/azurite")},
	}
	for _, p := range goList(t) {
		for _, rule := range rules {
			if rule.from != "" && !in(p.ImportPath, rule.from) || rule.except != "" && in(p.ImportPath, rule.except) {
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

func tree(names ...string) func(string) bool {
	return func(path string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return in(path, name) })
	}
}

func module(name string) func(string) bool {
	return func(path string) bool { return path == name || strings.HasPrefix(path, name+"/") }
}

// The queue runtime can be taken along: it is made of these packages of ours and of
// no other, so it knows nothing of videos (docs/take-the-runtime.md).
func TestArchitectureRuntimeStandsAlone(t *testing.T) {
	t.Parallel()
	own := tree("shared/product", // one name, which make fork changes
		"shared/settings", "shared/workitem", "shared/workqueue", "shared/azstorage", "shared/blobstore", "shared/tablestore")
	support := tree("shared/azuritetest", "shared/azurite")
	seen := 0
	for _, p := range goList(t) {
		if !own(p.ImportPath) {
			continue
		}
		seen++
		needs := p.allImports()
		if !strings.HasSuffix(p.ImportPath, "test") {
			needs = append(needs, p.Deps...)
		}
		for _, path := range needs {
			tests := !slices.Contains(p.Deps, path) || strings.HasSuffix(p.ImportPath, "test")
			if strings.HasPrefix(path, root) && !own(path) && !(tests && support(path)) {
				t.Errorf("%s needs %s, which is not part of the runtime", p.ImportPath, path)
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
			if ours || dep == "testing" {
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

// A function of more than 60 lines is split by what its parts do, or its comment
// has a line that says why not: "Over 60 lines: …".
func TestArchitectureLongFunctionsSayWhy(t *testing.T) {
	t.Parallel()
	const most = 60
	files := token.NewFileSet()
	seen := 0
	for _, module := range []string{"shared", "webrole", "workerrole", "e2e"} {
		err := filepath.WalkDir(filepath.Join("..", module), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
			if err != nil || ast.IsGenerated(file) {
				return err
			}
			for _, decl := range file.Decls {
				f, ok := decl.(*ast.FuncDecl)
				if !ok {
					continue
				}
				seen++
				from, to := files.Position(f.Pos()), files.Position(f.End())
				if lines := to.Line - from.Line + 1; lines > most && !strings.Contains("\n"+f.Doc.Text(), "\nOver 60 lines: ") {
					t.Errorf("%s: %s has %d lines and does not say why", from, f.Name.Name, lines)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 500 {
		t.Errorf("only %d functions looked at", seen)
	}
}
