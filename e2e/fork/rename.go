// Package fork makes a clone of this repository another product (Make, `make fork`): with
// another name, and with less, if asked for. It merges what upstream did since then into the
// fork (Sync, `make sync`).
//
// A fork follows upstream by a vendor branch: a commit on the branch "upstream" holds the
// tree of a commit of upstream as Make makes it. What git merges is then what upstream
// changed and what the fork changed; a name never conflicts, and nor does what is gone.
package fork

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	modulePattern = regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)+(/[A-Za-z0-9._-]+)+$`)
	namePattern   = regexp.MustCompile(`^[a-z][a-z0-9]{1,19}$`)
	moduleLine    = regexp.MustCompile(`(?m)^module (\S+)/shared$`)
	nameLine      = regexp.MustCompile(`(?m)^const Name = "([a-z0-9]+)"$`)
)

// Rename is Make of a fork that has everything.
func Rename(dir, module, name string) (changed int, err error) {
	return Make(dir, Choice{Module: module, Name: name})
}

// oldNames are what a tree is called before it is renamed.
type oldNames struct{ module, name string }

// checkNames says why the tree in dir cannot have another name.
func checkNames(dir, module, name string) (old oldNames, err error) {
	if old.module, old.name, err = names(dir); err != nil {
		return old, err
	}
	if !modulePattern.MatchString(module) {
		return old, fmt.Errorf("MODULE=%q is not a module path such as example.com/acme/reel", module)
	}
	if !namePattern.MatchString(name) || name == old.name {
		return old, fmt.Errorf("NAME=%q is not a new name of 2 to 20 lower-case letters and digits, a letter first: "+
			"it becomes part of settings, metrics and message types", name)
	}
	if err := refuseChanges(dir); err != nil {
		return old, err
	}
	texts, err := readAll(dir)
	if err != nil {
		return old, err
	}
	taken := regexp.MustCompile(`\b` + strings.ToUpper(name) + `_[A-Z]`)
	for path, text := range texts {
		if taken.MatchString(text) {
			return old, fmt.Errorf("NAME=%q: %s has settings of this name already", name, path)
		}
	}
	return old, nil
}

// rename replaces the path of the modules and the product's name, in lower case, with a
// capital and in capitals, in every file that git knows in dir but the licence: that one
// keeps naming whom it is from. It returns how many files it changed.
func rename(dir string, old oldNames, module, name string) (changed int, err error) {
	texts, err := readAll(dir)
	if err != nil {
		return 0, err
	}
	return replaceAll(dir, texts, strings.NewReplacer( // the first that fits wins: the path holds the name
		old.module, module,
		old.name, name,
		Title(old.name), Title(name),
		strings.ToUpper(old.name), strings.ToUpper(name)))
}

// names returns the path of the modules and the product's name, as the tree in dir has them.
func names(dir string) (module, name string, err error) {
	modules, err := os.ReadFile(filepath.Join(dir, "shared", "go.mod"))
	if err != nil {
		return "", "", fmt.Errorf("read the path of the modules: %w", err)
	}
	product, err := os.ReadFile(filepath.Join(dir, "shared", "product", "product.go"))
	if err != nil {
		return "", "", fmt.Errorf("read the product's name: %w", err)
	}
	inModules, inProduct := moduleLine.FindSubmatch(modules), nameLine.FindSubmatch(product)
	if inModules == nil || inProduct == nil {
		return "", "", errors.New("shared/go.mod names no module that ends in /shared, or shared/product no Name")
	}
	return string(inModules[1]), string(inProduct[1]), nil
}

// Title is the name as in a heading. Names are ASCII.
func Title(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

func refuseChanges(dir string) error {
	changes, err := output(dir, "git", "status", "--porcelain")
	if err == nil && changes != "" {
		err = fmt.Errorf("there are changes that are not committed:\n%s", changes)
	}
	return err
}

// readAll returns every text file that git knows and that is there, by path, but the licence.
func readAll(dir string) (map[string]string, error) {
	list, err := output(dir, "git", "ls-files", "-z")
	if err != nil {
		return nil, err
	}
	texts := make(map[string]string)
	for path := range strings.SplitSeq(strings.TrimRight(list, "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(dir, path))
		if errors.Is(err, fs.ErrNotExist) { // the fork does without it
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the sources: %w", err)
		}
		if path != "LICENSE" && !bytes.ContainsRune(text, 0) {
			texts[path] = string(text)
		}
	}
	return texts, nil
}

// replaceAll writes the files that the replacer changes, and returns how many they are.
func replaceAll(dir string, texts map[string]string, renamed *strings.Replacer) (changed int, err error) {
	for path, text := range texts {
		after := renamed.Replace(text)
		if after == text {
			continue
		}
		changed++
		// The mode of the file stays.
		if err := os.WriteFile(filepath.Join(dir, path), []byte(after), 0o600); err != nil {
			return changed, fmt.Errorf("rename in %s: %w", path, err)
		}
	}
	return changed, nil
}

// generate mends what a new name changes beside the text: imports are sorted by path, the
// generated API holds its document packed, and the names in the pages' scripts are as short
// as the letters around them are rare.
func generate(dir string) error {
	_, err := output(dir, "make", "fmt")
	if err == nil {
		_, err = output(dir, "go", "generate", "./webrole/internal/api", "./webrole/web")
	}
	return err
}

// output runs a command in dir and returns what it wrote, without the space around it.
func output(dir, command string, args ...string) (string, error) {
	cmd := exec.Command(command, args...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stderr = dir, &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", command, strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}
