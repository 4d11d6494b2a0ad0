package fork_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/e2e/fork"
	"github.com/cutroom/cutroom/shared/azstore/azurite"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// mostLines is how many lines of Go the core may have, with its libraries.
const mostLines = 15_000

// coreCopy is a copy of the repository after `make fork ONLY=core`.
func coreCopy(t *testing.T) (tree string) {
	t.Helper()
	tree = copyRepository(t)
	run(t, tree, "make", "fork", "MODULE=example.com/acme/"+newName, "NAME="+newName, "ONLY=core")
	return tree
}

// inCore runs a command in a fork of the core, with the emulator of this repository, and returns
// what it wrote.
func inCore(t *testing.T, tree, name string, args ...string) string {
	t.Helper()
	script, err := azurite.Find()
	if err != nil {
		t.Fatal(err)
	}
	return run(t, tree, "env", append([]string{
		"AZURITE_JS=" + script, "DEMO_EXIT=1", strings.ToUpper(newName) + "_ADDR=127.0.0.1:0", name,
	}, args...)...)
}

// The core alone builds, is small, says nothing that does not hold, and makes a file ready.
func TestForkOfTheCore(t *testing.T) {
	azuritetest.Slow(t, "makes a fork, and runs it")
	tree := coreCopy(t)
	run(t, tree, "git", "add", "--all")
	oldNameIsGone(t, tree)
	linksHold(t, tree)
	targetsHold(t, tree)
	if n := productLines(t, tree); n > mostLines {
		t.Errorf("the core has %d lines of Go, more than %d", n, mostLines)
	} else {
		t.Logf("the core has %d lines of Go", n)
	}
	run(t, tree, "go", "vet", "./shared/...", "./shared/azq/...", "./shared/azq/cmd/azq/...", "./shared/azstore/...", "./examples/...", "./e2e/...")
	if out := run(t, tree, "gofmt", "-l", "shared", "e2e", "examples"); out != "" {
		t.Errorf("gofmt would change\n%s", out)
	}
	for _, module := range []string{"shared", "examples", "e2e"} {
		run(t, filepath.Join(tree, module), "env", "GOWORK=off", "go", "build", "./...")
	}
	if out := inCore(t, tree, "make", "--no-print-directory", "demo"); !strings.Contains(out, `README.md is ready: {"digest":{"sha256":`) {
		t.Errorf("make demo says\n%s", out)
	}
	inCore(t, tree, "go", "test", "./examples/...")
}

// All its tests pass, the engine's among them.
func TestForkOfTheCoreTestsItself(t *testing.T) {
	azuritetest.Slow(t, "makes a fork, and runs all its tests")
	inCore(t, coreCopy(t), "make", "test")
}

// productLines counts lines of Go, but for tests, support of tests, and programs of e2e.
func productLines(t *testing.T, tree string) (lines int) {
	support := regexp.MustCompile(`^e2e/|/(azurite|inject|conformance|histories|[a-z]+test)/`)
	eachFile(t, tree, func(path, text string) {
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && !support.MatchString(path) {
			lines += strings.Count(text, "\n")
		}
	})
	return lines
}

// eachFile calls look for every file that a tree keeps.
func eachFile(t *testing.T, tree string, look func(path, text string)) {
	t.Helper()
	for path := range strings.SplitSeq(run(t, tree, "git", "ls-files", "-z"), "\x00") {
		text, err := os.ReadFile(filepath.Join(tree, path))
		if err != nil && path != "" {
			t.Fatal(err)
		}
		if path != "" {
			look(path, string(text))
		}
	}
}

// linksHold looks for every relative link of a document.
func linksHold(t *testing.T, tree string) {
	t.Helper()
	target, seen := regexp.MustCompile(`\]\(([^)\s:#]+)[)#]`), 0
	eachFile(t, tree, func(path, text string) {
		if filepath.Ext(path) != ".md" {
			return
		}
		for _, match := range target.FindAllStringSubmatch(text, -1) {
			seen++
			if _, err := os.Stat(filepath.Join(tree, filepath.Dir(path), match[1])); err != nil {
				t.Errorf("%s links to %s, which does not exist", path, match[1])
			}
		}
	})
	if seen < 20 {
		t.Errorf("only %d links are looked at", seen)
	}
}

// targetsHold looks for what the Makefile runs, and for what README says to make.
func targetsHold(t *testing.T, tree string) {
	t.Helper()
	makefile := read(t, tree, "Makefile")
	for _, match := range regexp.MustCompile(`scripts/gorun ([a-z]+)|(scripts/[a-z]+)`).FindAllStringSubmatch(makefile, -1) {
		path := match[2]
		if match[1] != "" {
			path = "e2e/cmd/" + match[1]
		}
		if _, err := os.Stat(filepath.Join(tree, path)); err != nil {
			t.Errorf("the Makefile runs %s, which does not exist", path)
		}
	}
	for _, match := range regexp.MustCompile("(?m)(?:^|`)make ([a-z]+)").FindAllStringSubmatch(read(t, tree, "README.md"), -1) {
		if !strings.Contains(makefile, "\n"+match[1]+":") {
			t.Errorf("README says make %s, which is no target", match[1])
		}
	}
}

// The core follows upstream, as small as it is: what upstream changes arrives where the fork has
// it, and conflicts nowhere else.
func TestForkOfTheCoreFollowsUpstream(t *testing.T) {
	azuritetest.Slow(t, "makes forks of the repository")
	upstream, tree := copyRepository(t), filepath.Join(t.TempDir(), "tree")
	configure(t, upstream)
	run(t, upstream, "git", "clone", "--quiet", upstream, tree)
	configure(t, tree)
	if _, err := fork.Make(tree, fork.Choice{Module: newModule, Name: newName, Only: "core"}); err != nil {
		t.Fatal(err)
	}
	run(t, tree, "git", "commit", "--quiet", "-a", "-m", "The core")
	commit(t, tree, "shared/engine/own.go", "package engine\n")
	before := run(t, tree, "git", "ls-files")
	for range 2 {
		for _, path := range []string{"webrole/main.go", "README.md", "shared/engine/doc.go", "e2e/fork/core/README.md.txt"} {
			write(t, upstream, path, read(t, upstream, path)+"\n// Changed upstream.\n")
		}
		run(t, upstream, "git", "commit", "--quiet", "-a", "-m", "Changes")
		if _, err := fork.Sync(tree, upstream, "HEAD"); err != nil {
			t.Fatal(err)
		}
	}
	if after := run(t, tree, "git", "ls-files"); after != before {
		t.Errorf("the files were\n%s\nand are\n%s", before, after)
	}
	for _, path := range []string{"shared/engine/doc.go", "README.md"} {
		if n := strings.Count(read(t, tree, path), "// Changed upstream."); n != 2 {
			t.Errorf("%s has %d of 2 changes", path, n)
		}
	}
}

// What cannot be made changes nothing.
func TestForkRefuses(t *testing.T) {
	t.Parallel()
	_, tree := smallFork(t)
	for want, c := range map[string]fork.Choice{"core alone": {Only: "engine"}, "leave WITHOUT unset": {Only: "core", Without: []string{"seek"}}} {
		c.Module, c.Name = newModule, newName
		if _, err := fork.Make(tree, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", c, err)
		}
		if out := run(t, tree, "git", "status", "--porcelain"); out != "" {
			t.Errorf("%+v changed\n%s", c, out)
		}
	}
}
