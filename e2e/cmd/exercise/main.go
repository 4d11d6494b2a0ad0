// Command exercise lists the exercises of package mutations, begins one and checks it. A clone
// is in .run/exercise-N, and how far its learner is in .run/exercise-N/.git/exercise.
// `make exercise` runs it.
//
//	make exercise              the list
//	make exercise N=3          a clone without a guard
//	make exercise N=3 CHECK=1  green, or the next hint
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cutroom/cutroom/e2e/command"
	"github.com/cutroom/cutroom/e2e/mutations"
	"github.com/cutroom/cutroom/e2e/stack"
)

func main() {
	command.Main("exercise", func(ctx context.Context) error {
		root, err := stack.Root()
		if err != nil {
			return err
		}
		return desk{root, filepath.Join(root, ".run"), os.Stdout}.run(ctx, os.Getenv("N"), os.Getenv("CHECK") != "")
	})
}

// desk is where exercises are done.
type desk struct {
	root   string // of the repository
	clones string // the folder that has them
	out    io.Writer
}

// progress is how far a learner is with one exercise.
type progress struct {
	Hints  int  // shown before it was solved
	Green  bool // at the latest check
	Solved bool // once green
}

func (d desk) run(ctx context.Context, n string, check bool) error {
	all, err := mutations.Exercises()
	if err != nil {
		return err
	}
	if n == "" {
		return d.list(all)
	}
	number, err := strconv.Atoi(n)
	if err != nil || number < 1 || number > len(all) {
		return fmt.Errorf("want N from 1 to %d, got %q", len(all), n)
	}
	e := all[number-1]
	begun, done, err := d.progress(e)
	switch {
	case err != nil:
		return err
	case check && !begun:
		return fmt.Errorf("exercise %d is not begun: make exercise N=%d", e.Number, e.Number)
	case check:
		return d.check(ctx, e, done)
	case !begun:
		if err := e.Begin(ctx, d.root, d.clone(e)); err != nil {
			return errors.Join(err, os.RemoveAll(d.clone(e)))
		}
	}
	d.tell(e, len(all), done)
	return nil
}

func (d desk) clone(e mutations.Exercise) string {
	return filepath.Join(d.clones, fmt.Sprintf("exercise-%d", e.Number))
}

func (d desk) progressFile(e mutations.Exercise) string {
	return filepath.Join(d.clone(e), ".git", "exercise")
}

// progress reads how far the learner is. A clone that was only begun has no file.
func (d desk) progress(e mutations.Exercise) (begun bool, p progress, _ error) {
	if _, err := os.Stat(d.clone(e)); errors.Is(err, fs.ErrNotExist) {
		return false, p, nil
	}
	text, err := os.ReadFile(d.progressFile(e))
	if errors.Is(err, fs.ErrNotExist) {
		return true, p, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return true, p, fmt.Errorf("read how far exercise %d is: %w", e.Number, err)
	}
	return true, p, nil
}

func (d desk) list(all []mutations.Exercise) error {
	for _, e := range all {
		begun, done, err := d.progress(e)
		if err != nil {
			return err
		}
		state := "new"
		switch {
		case done.Green:
			state = "green"
		case begun:
			state = "begun"
		}
		first, _, _ := strings.Cut(e.Sees, ". ")
		fmt.Fprintf(d.out, "%2d  %-5s  %s: %s.\n", e.Number, state, e.Name, strings.TrimSuffix(first, "."))
	}
	fmt.Fprintln(d.out, "\nBegin one: make exercise N=1")
	return nil
}

func (d desk) tell(e mutations.Exercise, of int, p progress) {
	fmt.Fprintf(d.out, `Exercise %d of %d: %s

%s

%s

clone    .run/exercise-%d (remove it to begin again)
look at  %s
read     %s
try      %s
check    make exercise N=%d CHECK=1 (here, not in the clone)
`, e.Number, of, e.Name, wrap(e.Sees), wrap(e.Asks), e.Number, e.Look, e.Page, e.Command(), e.Number)
	for _, hint := range e.Hints[:p.Hints] {
		fmt.Fprintf(d.out, "\nHint: %s\n", wrap(hint))
	}
}

// check runs the check and shows the next hint if it is red. What does not build needs no hint.
func (d desk) check(ctx context.Context, e mutations.Exercise, p progress) error {
	green, said, err := e.Check(ctx, d.clone(e))
	if err != nil {
		return err
	}
	p.Green, p.Solved = green, p.Solved || green
	if green {
		fmt.Fprintf(d.out, "Exercise %d is green, with %d hints. Yours is `git diff` in the clone, ours is\n\n%s",
			e.Number, p.Hints, e.Diff())
		return d.keep(e, p)
	}
	fmt.Fprintf(d.out, "Exercise %d is red:\n\n%s\n", e.Number, failure(said))
	switch {
	case p.Solved:
		fmt.Fprintln(d.out, "It was green before: this uses no hint.")
	case p.Hints == len(e.Hints):
		fmt.Fprintf(d.out, "No hint is left. This is one solution:\n\n%s", e.Diff())
	default:
		fmt.Fprintf(d.out, "Hint %d of %d:\n\n%s\n", p.Hints+1, len(e.Hints), wrap(e.Hints[p.Hints]))
		p.Hints++
	}
	return errors.Join(d.keep(e, p), errors.New("red"))
}

func (d desk) keep(e mutations.Exercise, p progress) error {
	text, err := json.Marshal(p)
	if err == nil {
		err = os.WriteFile(d.progressFile(e), text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("keep how far exercise %d is: %w", e.Number, err)
	}
	return nil
}

// failure is what a test says from its first failure on, without the log before it, and at most
// some lines.
func failure(said string) string {
	const most = 25
	_, after, _ := strings.Cut(said, "--- FAIL")
	after, _, _ = strings.Cut(after, "\nFAIL")
	lines := strings.Split(strings.TrimSpace("--- FAIL"+after), "\n")
	if len(lines) > most {
		lines = append(lines[:most], "    …")
	}
	return strings.Join(lines, "\n") + "\n"
}

// wrap breaks a text into lines.
func wrap(text string) string {
	const width = 100
	var lines []string
	for _, word := range strings.Fields(text) {
		if last := len(lines) - 1; last >= 0 && len(lines[last])+len(word) < width {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return strings.Join(lines, "\n")
}
