package fork_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/e2e/fork"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// Without a feature, and without all of them, both roles build and make a video ready, and what
// knew the feature passes go vet. What goes of Go files that stay is in fork.Named: an import and
// a value for each folder, and some settings. What needs it goes, too.
func TestFeaturesComeOff(t *testing.T) {
	azuritetest.Slow(t, "builds the roles without each feature, and runs them")
	tree, roles, table := copyRepository(t), t.TempDir(), "feature: lines outside its folders"
	packages := packagesOf(t, tree)
	for _, names := range append(each(fork.Features()), fork.Features()) {
		t.Run(strings.Join(names, " "), func(t *testing.T) {
			defer run(t, tree, "git", "clean", "-fdq")
			defer run(t, tree, "git", "checkout", "-q", "--", ".")
			lines, err := fork.Remove(tree, names...)
			if err != nil {
				t.Fatal(err)
			}
			if most := 20 * len(names); lines == 0 || lines > most { // registrations and clips take finish clips along
				t.Errorf("%d lines outside, want 1 to %d", lines, most)
			}
			table += fmt.Sprintf("\n%s: %d", strings.Join(names, " "), lines)
			run(t, tree, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(roles, fmt.Sprintf("%s-%d", names[0], len(names)))+"/", "./webrole", "./workerrole")
			run(t, tree, "go", append([]string{"vet", "-trimpath"}, affected(t, tree, packages)...)...)
			if run(t, tree, "git", "diff", "--name-only", "webrole/web/src") != "" {
				run(t, filepath.Join(tree, "webrole/web"), "npm", "run", "check")
			}
			if out := run(t, tree, "git", "diff", "--diff-filter=M", "--name-only"); !onlyNamed(out) {
				t.Errorf("files changed that stay:\n%s", out)
			}
		})
	}
	t.Log(table)
	_, err := fork.Make(tree, fork.Choice{Module: newModule, Name: newName, Without: []string{"no such feature"}})
	if changed := run(t, tree, "git", "status", "--porcelain"); err == nil || changed != "" {
		t.Errorf("an unknown feature: %v, changed\n%s", err, changed)
	}
	emulator := startEmulator(t)
	t.Run("roles", func(t *testing.T) {
		built, err := os.ReadDir(roles)
		if err != nil {
			t.Fatal(err)
		}
		for i, without := range built {
			t.Run(without.Name(), func(t *testing.T) {
				t.Parallel()
				makesAVideoReady(t, filepath.Join(roles, without.Name()), append(stack.Environ(),
					"AZURE_STORAGE_CONNECTION_STRING="+emulator.ConnectionString(), fmt.Sprintf("CUTROOM_PREFIX=without%d", i)))
			})
		}
	})
}

// The tests of shared and of both roles hold without features that others have much to do with.
func TestWholeWithoutFeatures(t *testing.T) {
	azuritetest.Slow(t, "runs the tests of a product twice")
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("AZURITE_JS") == "" { // it is not part of the copy, and nor is what checks the scripts
		t.Setenv("AZURITE_JS", filepath.Join(root, "deploy/azurite/node_modules/azurite/dist/src/azurite.js"))
	}
	for _, names := range []string{"early previews", "registrations clips captions lab"} {
		t.Run(names, func(t *testing.T) {
			tree := copyRepository(t)
			if _, err := fork.Remove(tree, strings.Fields(names)...); err != nil {
				t.Fatal(err)
			}
			run(t, tree, "go", "test", "-vet=off", "-p", "2", "-parallel", "4", "-timeout", "1h", "./shared/...", "./webrole/...", "./workerrole/...")
		})
	}
}

func each(names []string) (alone [][]string) {
	for _, name := range names {
		alone = append(alone, []string{name})
	}
	return alone
}

// onlyNamed reports whether of Go files those alone changed that name features, and what is generated.
func onlyNamed(files string) bool {
	return !slices.ContainsFunc(strings.Fields(files), func(file string) bool {
		return strings.HasSuffix(file, ".go") && !slices.Contains(fork.Named, file) && !strings.HasPrefix(file, "webrole/internal/api/")
	})
}

// packagesOf returns what each package of the tree imports, and its tests, by its folder.
func packagesOf(t *testing.T, tree string) map[string]string {
	packages := map[string]string{}
	list := run(t, tree, "go", "list", "-f", "{{.Dir}}\t{{.Imports}} {{.TestImports}} {{.XTestImports}} ",
		"./shared/...", "./webrole/...", "./workerrole/...", "./e2e/...")
	for line := range strings.Lines(list) {
		dir, imports, _ := strings.Cut(line, "\t")
		folder, err := filepath.Rel(tree, dir)
		if err != nil {
			t.Fatal(err)
		}
		packages[folder] = strings.NewReplacer("[", " ", "]", " ").Replace(imports)
	}
	return packages
}

// affected are the folders of packages that stay and of which a file, or an import, changed.
func affected(t *testing.T, tree string, packages map[string]string) []string {
	folders := map[string]bool{}
	for file := range strings.FieldsSeq(run(t, tree, "git", "diff", "--name-only")) {
		changed := filepath.Dir(file)
		for folder, imports := range packages {
			if folder == changed || strings.Contains(imports, "/"+changed+" ") {
				if left, _ := filepath.Glob(filepath.Join(tree, folder, "*.go")); len(left) > 0 {
					folders["./"+folder] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(folders))
}
