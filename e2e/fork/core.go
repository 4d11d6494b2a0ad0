package fork

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// What ONLY=core keeps: these packages and their tests, these programs, what they import of this
// repository, and these files. Files that are others in such a fork are in coreTexts.
var (
	coreTrees    = []string{"shared/azq", "shared/azq/cmd/azq", "shared/azstore", "shared/engine", "shared/product", "examples/core", "examples/files"}
	corePrograms = []string{"./e2e/cmd/sync", "./e2e/cmd/files"}
	coreModules  = []string{"shared", "shared/azstore", "shared/azq", "shared/azq/cmd/azq", "examples", "e2e"}
	coreFiles    = []string{
		"LICENSE", ".gitignore", ".ci/run", "scripts/gorun", "go.work.sum", "tools/go.mod", "tools/go.sum",
		"deploy/azurite/package.json", "deploy/azurite/package-lock.json", "Makefile", "README.md", "go.work", "scripts/bootstrap", "scripts/lint",
	}
	// In these the product has the fork's name.
	coreNames = []string{"examples/files/main.go", "e2e/cmd/files/main.go"}
)

// coreTexts is the folder of files of such a fork, each with this ending: their links hold there.
const (
	coreTexts = "e2e/fork/core"
	ending    = ".txt"
)

// keepCore makes the tree in dir the core: paths stay as they are, so that upstream can be merged.
func keepCore(dir, name string) error {
	keep, err := corePackages(dir)
	if err != nil {
		return fmt.Errorf("ONLY=core: %w", err)
	}
	if err := writeCore(dir); err != nil {
		return err
	}
	list, err := output(dir, "git", "ls-files", "-z")
	if err != nil {
		return err
	}
	for path := range strings.SplitSeq(strings.TrimRight(list, "\x00"), "\x00") {
		if isCore(path, keep) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, path)); err != nil {
			return fmt.Errorf("ONLY=core: %w", err)
		}
		for up := filepath.Dir(path); up != "." && os.Remove(filepath.Join(dir, up)) == nil; { // while empty
			up = filepath.Dir(up)
		}
	}
	for _, path := range coreNames {
		if err := edit(filepath.Join(dir, path), func(text string) string {
			return strings.Replace(text, `const name = "files"`, `const name = "`+name+`"`, 1)
		}); err != nil {
			return err
		}
	}
	return unlinkAll(dir)
}

// corePackages are the folders of the packages that are kept.
func corePackages(dir string) (folders []string, err error) {
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	root, err = filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	var trees []string
	for _, tree := range coreTrees {
		trees = append(trees, "./"+tree+"/...")
	}
	for _, args := range [][]string{append([]string{"-test"}, trees...), corePrograms} {
		found, err := output(root, "go", append([]string{"list", "-deps", "-f", "{{if not .Standard}}{{.Dir}}{{end}}"}, args...)...)
		if err != nil {
			return nil, err
		}
		for folder := range strings.Lines(found) {
			if path, err := filepath.Rel(root, strings.TrimSpace(folder)); err == nil && filepath.IsLocal(path) {
				folders = append(folders, filepath.ToSlash(path))
			}
		}
	}
	slices.Sort(folders)
	return slices.Compact(folders), nil
}

func isCore(path string, packages []string) bool {
	folder, file := filepath.ToSlash(filepath.Dir(path)), filepath.Base(path)
	switch {
	case slices.Contains(coreFiles, path):
		return true
	case slices.ContainsFunc(coreTrees, func(tree string) bool { return strings.HasPrefix(path, tree+"/") }):
		return true
	case file == "go.mod" || file == "go.sum":
		return slices.Contains(coreModules, folder)
	case strings.HasPrefix(path, "e2e/") && strings.HasSuffix(file, "_test.go"): // they start the roles
		return false
	}
	return slices.Contains(packages, folder)
}

// writeCore writes the files that such a fork has in the place of upstream's.
func writeCore(dir string) error {
	from := filepath.Join(dir, coreTexts)
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(from, strings.TrimSuffix(path, ending))
		return os.WriteFile(filepath.Join(dir, name), text, 0o600) // the mode of the file stays
	})
}

var linkedWords = regexp.MustCompile(`\[([^\]\n]+)\]\(([^)\s:]+)\)`)

// unlinkAll leaves of links to what is gone their words.
func unlinkAll(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" {
			if err == nil && entry.IsDir() && entry.Name() == "node_modules" {
				return filepath.SkipDir
			}
			return err
		}
		return edit(path, func(text string) string {
			return linkedWords.ReplaceAllStringFunc(text, func(whole string) string {
				words := linkedWords.FindStringSubmatch(whole)
				target, _, _ := strings.Cut(words[2], "#")
				if _, err := os.Stat(filepath.Join(filepath.Dir(path), target)); target == "" || err == nil {
					return whole
				}
				return words[1]
			})
		})
	})
}

// edit rewrites a file if that changes it.
func edit(path string, change func(string) string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if after := change(string(text)); after != string(text) {
		return os.WriteFile(path, []byte(after), 0o600)
	}
	return nil
}

// tidyCore mends what a smaller tree under another name changes: the order of imports, and what
// modules require.
func tidyCore(dir string) error {
	if _, err := output(dir, "make", "fmt"); err != nil {
		return err
	}
	for _, module := range coreModules {
		if _, err := output(filepath.Join(dir, module), "env", "GOWORK=off", "go", "mod", "tidy"); err != nil {
			return err
		}
	}
	return nil
}
