package mutations

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Exercise is a mutation that a learner finds in a clone and mends. The check is its test, so
// every right solution is green.
type Exercise struct {
	Mutation
	Number int    // from 1, the order in which they are best done
	Page   string // the pattern that it belongs to, below the root
	Look   string // where the missing guard belongs
	Sees   string // what is seen from outside
	Asks   string
	Hints  []string // three, each says more than the one before
}

// Exercises reads exercises.txt.
func Exercises() (all []Exercise, _ error) {
	text, err := lists.ReadFile("exercises.txt")
	if err != nil {
		return nil, fmt.Errorf("read the exercises: %w", err)
	}
	list, err := parse(string(text), "page", "look", "sees", "asks", "hint")
	if err != nil {
		return nil, fmt.Errorf("exercises.txt: %w", err)
	}
	for i, m := range list {
		e := Exercise{Mutation: m, Number: i + 1}
		to := map[string]*string{"page": &e.Page, "look": &e.Look, "sees": &e.Sees, "asks": &e.Asks}
		for _, n := range m.notes {
			if n.field == "hint" {
				e.Hints = append(e.Hints, n.text)
			} else {
				*to[n.field] = n.text
			}
		}
		all = append(all, e)
	}
	return all, nil
}

// answers are what a clone of an exercise does not have: the lists, and what reads them.
var answers = []string{"e2e/mutations", "e2e/cmd/mutations", "e2e/cmd/exercise"}

// Begin makes a clone without the guard in dir, which must not exist: a repository with one
// commit, of what is in the index of the repository root.
func (e Exercise) Begin(ctx context.Context, root, dir string) error {
	git := func(in string, args ...string) error {
		command := exec.CommandContext(ctx, "git", args...)
		command.Dir = in
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("exercise %d: %s: %w\n%s", e.Number, command, err, out)
		}
		return nil
	}
	if err := git(root, "checkout-index", "--all", "--prefix="+dir+"/"); err != nil {
		return err
	}
	for _, path := range answers {
		if err := os.RemoveAll(filepath.Join(dir, path)); err != nil {
			return fmt.Errorf("exercise %d: remove the answers: %w", e.Number, err)
		}
	}
	changed, err := e.changed(dir)
	if err != nil {
		return fmt.Errorf("exercise %d: %w", e.Number, err)
	}
	for file, text := range changed {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(file)), []byte(text), 0o644); err != nil {
			return fmt.Errorf("exercise %d: %w", e.Number, err)
		}
	}
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"add", "--all"},
		{
			"-c", "user.name=exercise", "-c", "user.email=exercise@localhost", "-c", "commit.gpgsign=false",
			"commit", "--quiet", "--no-verify", "-m", "Exercise",
		},
	} {
		if err := git(dir, args...); err != nil {
			return err
		}
	}
	return nil
}

// Check runs the test in a clone and reports whether the guard is back. said is what the test
// printed. ErrBuild when the clone does not build.
func (e Exercise) Check(ctx context.Context, dir string) (green bool, said string, err error) {
	return e.test(ctx, dir, environ(""))
}

// Command is the check as a learner types it in the clone.
func (e Exercise) Command() string {
	return fmt.Sprintf("go test -count=1 -run '%s' %s", only(e.Test), e.Package)
}

// Diff is one right solution: what Begin has changed, turned round.
func (e Exercise) Diff() string {
	var b strings.Builder
	for _, edit := range e.Edits {
		fmt.Fprintf(&b, "%s\n", edit.File)
		for _, side := range []struct{ sign, text string }{{"-", edit.New}, {"+", edit.Old}} {
			for line := range strings.Lines(strings.Trim(side.text, "\n") + "\n") {
				b.WriteString(side.sign + line)
			}
		}
	}
	return b.String()
}
