package mutations

import (
	"os"
	"path/filepath"
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

// Every exercise has what a learner is told, and its page and its place exist.
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
	}
}
