// Command fork gives a fresh clone another name: `make fork`.
//
//	make fork MODULE=example.com/acme/reel NAME=reel
//
// It replaces the path of the modules and the product's name, in lower case,
// with a capital and in capitals, in every file that git knows but the licence:
// that one keeps naming whom it is from. shared/product keeps the old name, so
// that messages which wait in a queue are still read. It refuses a tree with
// changes, so that `git checkout .` undoes it.
//
// Next: docs/fork.md, what to decide afterwards.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"

	"github.com/cutroom/cutroom/shared/product"
)

var (
	modulePattern = regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)+(/[A-Za-z0-9._-]+)+$`)
	namePattern   = regexp.MustCompile(`^[a-z][a-z0-9]{1,19}$`)
	moduleLine    = regexp.MustCompile(`(?m)^module (\S+)/shared$`)
)

func main() {
	module := flag.String("module", "", "path of the modules, such as example.com/acme/reel")
	name := flag.String("name", "", "name of the product, such as reel")
	flag.Parse()
	if err := fork(*module, *name); err != nil {
		fmt.Fprintln(os.Stderr, "fork:", err)
		os.Exit(1)
	}
}

func fork(module, name string) error {
	if !modulePattern.MatchString(module) {
		return fmt.Errorf("MODULE=%q is not a module path such as example.com/acme/reel", module)
	}
	if !namePattern.MatchString(name) || name == product.Name {
		return fmt.Errorf("NAME=%q is not a new name of 2 to 20 lower-case letters and digits, a letter first: it becomes part of settings, metrics and message types", name)
	}
	changed, err := output("git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if len(changed) > 0 {
		return fmt.Errorf("there are changes that are not committed:\n%s", changed)
	}
	texts, err := readAll()
	if err != nil {
		return err
	}
	oldModule := moduleLine.FindStringSubmatch(texts["shared/go.mod"])
	if oldModule == nil {
		return errors.New("shared/go.mod names no module that ends in /shared")
	}
	renamed := strings.NewReplacer( // the first that fits wins: the module's path holds the name
		oldModule[1], module,
		product.Name, name,
		title(product.Name), title(name),
		strings.ToUpper(product.Name), strings.ToUpper(name))
	taken := regexp.MustCompile(`\b` + strings.ToUpper(name) + `_[A-Z]`)
	for path, text := range texts {
		if taken.MatchString(text) {
			return fmt.Errorf("NAME=%q: %s has settings that begin with %s_ already", name, path, strings.ToUpper(name))
		}
	}
	count := 0
	for path, text := range texts {
		after := renamed.Replace(text)
		if after == text {
			continue
		}
		count++
		if err := os.WriteFile(path, []byte(after), 0o600); err != nil { // the mode of the file stays
			return fmt.Errorf("rename in %s: %w", path, err)
		}
	}
	// Imports are sorted by path, the generated API holds its document packed, and the
	// names in the pages' scripts are as short as the letters around them are rare.
	for _, command := range [][]string{{"make", "fmt"}, {"go", "generate", "./webrole/internal/api", "./webrole/web"}} {
		if _, err := output(command[0], command[1:]...); err != nil {
			return err
		}
	}
	fmt.Printf("%s is %s now, module %s: %d files changed. `make check` checks it, `git checkout .` undoes it, docs/fork.md says what to decide.\n",
		title(product.Name), title(name), module, count)
	return nil
}

// readAll returns every text file that git knows, by path, but the licence.
func readAll() (map[string]string, error) {
	list, err := output("git", "ls-files", "-z")
	if err != nil {
		return nil, err
	}
	texts := make(map[string]string)
	for path := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read the sources: %w", err)
		}
		if path != "LICENSE" && !bytes.ContainsRune(text, 0) {
			texts[path] = string(text)
		}
	}
	return texts, nil
}

// title is the name as in a heading. Names are ASCII.
func title(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

func output(command string, args ...string) ([]byte, error) {
	cmd := exec.Command(command, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s%s", command, strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return out, nil
}
