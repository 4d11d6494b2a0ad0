package fork_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/e2e/fork"
)

// reelPrefix is a setting of the fork. It is put together, or no fork could have this name.
const reelPrefix = "REEL" + "_PREFIX"

// smallFork is a repository with what `make fork` asks of one, and its fork.
func smallFork(t *testing.T, without ...string) (upstream, tree string) {
	upstream, tree = t.TempDir(), filepath.Join(t.TempDir(), "tree")
	run(t, upstream, "git", "init", "--quiet", "--initial-branch", "main")
	configure(t, upstream)
	for path, content := range map[string]string{
		"Makefile":                  "fmt:\n",
		"README.md":                 "# Sprocket\n\nit reads SPROCKET_PREFIX\n\nthat is all\n",
		"go.work":                   "go 1.26.0\n\nuse (\n\t./shared\n\t./webrole\n)\n",
		"shared/go.mod":             "module example.com/old/sprocket/shared\n\ngo 1.26.0\n",
		"shared/product/product.go": "package product\n\nconst Name = \"sprocket\"\n",
		"webrole/go.mod":            "module example.com/old/sprocket/webrole\n\ngo 1.26.0\n",
		"webrole/internal/api/a.go": "package api\n",
		"webrole/main.go":           "package main\n",
		"webrole/config.go":         "package main\n",
		"workerrole/main.go":        "package main\n",
		"workerrole/config.go":      "package main\n",
		"shared/workflow/steps.go":  "package workflow\n",
		seek:                        "package seek\n",
		"webrole/web/web.go":        "package web\n",
	} {
		commit(t, upstream, path, content)
	}
	run(t, upstream, "git", "clone", "--quiet", upstream, tree)
	configure(t, tree)
	if _, err := fork.Make(tree, fork.Choice{Module: "example.com/acme/reel", Name: "reel", Without: without}); err != nil {
		t.Fatal(err)
	}
	run(t, tree, "git", "commit", "--quiet", "-a", "-m", "Reel")
	if rest := run(t, tree, "git", "status", "--porcelain"); rest != "" {
		t.Errorf("not committed:\n%s", rest)
	}
	return upstream, tree
}

const seek = "webrole/internal/feature/seek/seek.go"

// What upstream changes of a feature that came off conflicts with nothing, and does not come back.
func TestSyncKeepsFeaturesOff(t *testing.T) {
	t.Parallel()
	upstream, tree := smallFork(t, "seek")
	for _, change := range []string{"// once\n", "// twice\n"} {
		commit(t, upstream, seek, "package seek\n"+change)
		commit(t, upstream, "README.md", change)
		sync(t, tree, upstream, change)
		if files := run(t, tree, "git", "ls-files"); strings.Contains(files, "seek") || !strings.Contains(files, "webrole/main.go") {
			t.Errorf("the fork has\n%s", files)
		}
	}
}

// sync merges upstream's last commit and reports what is wrong with the fork's README then.
func sync(t *testing.T, tree, upstream, readme string) {
	t.Helper()
	if _, err := fork.Sync(tree, upstream, "main"); err != nil {
		t.Fatal(err)
	}
	if got := read(t, tree, "README.md"); got != readme {
		t.Errorf("the fork's README is\n%s\nwant\n%s", got, readme)
	}
	if status := run(t, tree, "git", "status", "--porcelain"); status != "" {
		t.Errorf("changes stay:\n%s", status)
	}
}

func read(t *testing.T, tree, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(tree, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// What upstream changes beside a name arrives with the fork's name, whatever became of the
// fork's history and of the vendor branch; a second time nothing changes.
func TestSyncKeepsNames(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(tree string){
		"first":       func(string) {},
		"new history": func(tree string) { beginAnew(t, tree) },
		"no branch":   func(tree string) { run(t, tree, "git", "branch", "--quiet", "-D", "upstream") },
		"old branch":  func(tree string) { run(t, tree, "git", "branch", "--quiet", "-f", "upstream", "upstream~1") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream, tree := smallFork(t)
			if strings.HasSuffix(name, "branch") {
				commit(t, upstream, "NEWS.md", "Sprocket\n")
				sync(t, tree, upstream, "# Reel\n\nit reads "+reelPrefix+"\n\nthat is all\n")
			}
			before(tree)
			commit(t, tree, "README.md", "# Reel\n\nit reads "+reelPrefix+"\n\nand that is all\n")
			commit(t, upstream, "README.md", "# Sprocket\n\nit needs SPROCKET_PREFIX\n\nthat is all\n")
			sync(t, tree, upstream, "# Reel\n\nit needs "+reelPrefix+"\n\nand that is all\n")
			head := run(t, tree, "git", "rev-parse", "HEAD", "upstream")
			sync(t, tree, upstream, "# Reel\n\nit needs "+reelPrefix+"\n\nand that is all\n")
			if again := run(t, tree, "git", "rev-parse", "HEAD", "upstream"); again != head {
				t.Errorf("the second time changed\n%sto\n%s", head, again)
			}
		})
	}
}

// beginAnew begins the history anew with the files as they are.
func beginAnew(t *testing.T, tree string) {
	if err := os.RemoveAll(filepath.Join(tree, ".git")); err != nil {
		t.Fatal(err)
	}
	run(t, tree, "git", "init", "--quiet", "--initial-branch", "main")
	configure(t, tree)
	commit(t, tree, "OWN.md", "Reel\n")
}

// A conflict stays in the tree, and can be taken back or ended.
func TestSyncLeavesConflicts(t *testing.T) {
	t.Parallel()
	upstream, tree := smallFork(t)
	commit(t, upstream, "README.md", "# Sprocket, a mill\n")
	commit(t, tree, "README.md", "# Reel, a wheel\n")
	for range 2 {
		_, err := fork.Sync(tree, upstream, "main")
		conflict := new(fork.ConflictError)
		if !errors.As(err, &conflict) || !slices.Equal(conflict.Files, []string{"README.md"}) {
			t.Fatalf("two changes of a line: %v", err)
		}
		text := read(t, tree, "README.md")
		if !strings.Contains(text, "# Reel, a mill\n") || !strings.Contains(text, "# Reel, a wheel\n") {
			t.Errorf("the file in conflict is\n%s", text)
		}
		run(t, tree, "git", "merge", "--abort")
	}
	if _, err := fork.Sync(tree, upstream, "main"); err == nil {
		t.Fatal("no conflict the third time")
	}
	if _, err := fork.Sync(tree, upstream, "main"); err == nil || !strings.Contains(err.Error(), "not committed") {
		t.Errorf("in the middle of a merge: %v", err)
	}
	commit(t, tree, "README.md", "# Reel, a mill wheel\n")
	commit(t, upstream, "NEWS.md", "Sprocket\n")
	sync(t, tree, upstream, "# Reel, a mill wheel\n")
}

// Sync refuses what it would lose or could not merge, and changes nothing then.
func TestSyncRefuses(t *testing.T) {
	t.Parallel()
	for want, before := range map[string]func(t *testing.T, tree string){
		"not committed": func(t *testing.T, tree string) { write(t, tree, "README.md", "# Reel?\n") },
		"no fork": func(t *testing.T, tree string) {
			run(t, tree, "git", "rm", "--quiet", ".upstream")
			commit(t, tree, "x", "")
		},
		"is for upstream's commits alone": func(t *testing.T, tree string) {
			run(t, tree, "git", "branch", "upstream", "HEAD")
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			upstream, tree := smallFork(t)
			before(t, tree)
			refs, readme := run(t, tree, "git", "for-each-ref"), read(t, tree, "README.md")
			if _, err := fork.Sync(tree, upstream, "main"); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want an error with %q", err, want)
			}
			if now := run(t, tree, "git", "for-each-ref"); now != refs || read(t, tree, "README.md") != readme {
				t.Errorf("it changed\n%sto\n%s", refs, now)
			}
		})
	}
}
