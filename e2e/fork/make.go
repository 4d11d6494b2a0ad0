package fork

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Choice is what a fork is to be.
type Choice struct {
	Module, Name string   // see Rename
	Without      []string // features that come off: see Remove
	Only         string   // "core", or "" for all
}

// Make makes the clone in dir a fork, and returns how many files have other names in them. Like
// Rename it refuses a tree with changes. Sync makes the same of other commits of upstream.
func Make(dir string, c Choice) (changed int, err error) {
	old, err := checkNames(dir, c.Module, c.Name)
	if err := errors.Join(err, known(c.Without)); err != nil {
		return 0, err
	}
	switch {
	case c.Only != "" && c.Only != "core":
		return 0, fmt.Errorf("ONLY=%q: there is core alone", c.Only)
	case c.Only != "" && len(c.Without) > 0:
		return 0, fmt.Errorf("ONLY=%s has no features: leave WITHOUT unset", c.Only)
	case c.Only != "":
		err = keepCore(dir, c.Name)
	}
	if err == nil {
		changed, err = rename(dir, old, c.Module, c.Name)
	}
	if err == nil {
		err = note(dir, c)
	}
	switch {
	case err != nil:
	case c.Only != "":
		err = tidyCore(dir)
	default:
		err = generate(dir)
	}
	if err == nil && len(c.Without) > 0 {
		_, err = Remove(dir, c.Without...)
	}
	if err == nil { // so that `git commit -a` takes new files, and `git reset --hard` removes them
		_, err = output(dir, "git", "add", "--intent-to-add", "--all")
	}
	return changed, err
}

// record is the file in which a fork keeps the commit of upstream that it holds, in its first
// line, and what it is without or only, as `make fork` takes them.
const record = ".upstream"

// note writes the record.
func note(dir string, c Choice) error {
	commit, err := output(dir, "git", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	text := commit + "\n"
	if len(c.Without) > 0 {
		text += "WITHOUT=" + strings.Join(c.Without, " ") + "\n"
	}
	if c.Only != "" {
		text += "ONLY=" + c.Only + "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, record), []byte(text), 0o600); err != nil {
		return fmt.Errorf("note the commit of upstream: %w", err)
	}
	return nil
}

// recorded returns the commit of upstream that the fork in dir holds, and what the fork is.
func recorded(dir string) (commit string, c Choice, err error) {
	content, err := os.ReadFile(filepath.Join(dir, record))
	if err != nil {
		return "", c, fmt.Errorf("this is no fork: `make fork` notes here of what commit it is made: %w", err)
	}
	commit, rest, _ := strings.Cut(strings.TrimSpace(string(content)), "\n")
	for line := range strings.Lines(rest) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), "="); key {
		case "WITHOUT":
			c.Without = strings.Fields(value)
		case "ONLY":
			c.Only = value
		}
	}
	c.Module, c.Name, err = names(dir)
	return commit, c, err
}
