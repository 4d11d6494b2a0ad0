package mutations

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/e2e/stack"
)

func exercises(t *testing.T) []Exercise {
	t.Helper()
	all, err := Exercises()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Every exercise has what a learner is told, its page and its place exist, and what is in
// backticks is a word of the code there.
func TestExercisesAreWhole(t *testing.T) {
	t.Parallel()
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	all := exercises(t)
	if len(all) != 12 {
		t.Errorf("%d exercises", len(all))
	}
	for _, e := range all {
		if e.Sees == "" || e.Asks == "" || len(e.Hints) != 3 {
			t.Errorf("%d %s: what is seen, a question, and %d of three hints", e.Number, e.Name, len(e.Hints))
		}
		for _, path := range []string{e.Page, e.Look} {
			if _, err := os.Stat(filepath.Join(root, path)); path == "" || err != nil {
				t.Errorf("%d %s: %q: %v", e.Number, e.Name, path, err)
			}
		}
		code := ""
		files, err := filepath.Glob(filepath.Join(root, filepath.Dir(e.Look), "*.go"))
		for _, file := range files {
			text, readErr := os.ReadFile(file)
			code, err = code+string(text), errors.Join(err, readErr)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range regexp.MustCompile("`(.+?)`").FindAllStringSubmatch(strings.Join(append(e.Hints, e.Sees, e.Asks), " "), -1) {
			if !regexp.MustCompile(`\b` + word[1] + `\b`).MatchString(code) {
				t.Errorf("%d %s: %s is not in %s", e.Number, e.Name, word[0], filepath.Dir(e.Look))
			}
		}
	}
}

// The code builds without the guards: all of them at once, which takes little more than one.
func TestExercisesBuild(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: runs go build")
	}
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	all := Mutation{Name: "all exercises"}
	packages := map[string]bool{}
	for _, e := range exercises(t) {
		all.Edits = append(all.Edits, e.Edits...)
		packages["./"+filepath.Dir(e.Look)] = true
	}
	overlay, err := all.Overlay(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", slices.Concat([]string{"build", "-overlay", overlay}, slices.Sorted(maps.Keys(packages)))...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
