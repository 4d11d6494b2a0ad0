package fork_test

import (
	"strings"
	"testing"

	"github.com/cutroom/cutroom/e2e/fork"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// Without a feature, and without all of them, the web role builds. What goes of files that stay
// is two lines for each folder: its import, and its value in main. What needs it goes, too.
func TestFeaturesComeOff(t *testing.T) {
	azuritetest.Slow(t, "builds the roles without each feature")
	tree := copyRepository(t)
	for _, names := range append(each(fork.Features()), fork.Features()) {
		t.Run(strings.Join(names, " "), func(t *testing.T) {
			lines, err := fork.Remove(tree, names...)
			if err != nil {
				t.Fatal(err)
			}
			if most := 4 * len(names); lines == 0 || lines > most {
				t.Errorf("%d lines outside, want 1 to %d", lines, most)
			}
			run(t, tree, "go", "build", "./webrole/...")
			if out := run(t, tree, "git", "diff", "--stat", "--", "webrole/internal/httpapi", "webrole/internal/web", "shared", "workerrole"); out != "" {
				t.Errorf("files changed that stay:\n%s", out)
			}
			run(t, tree, "git", "checkout", "-q", "--", ".")
		})
	}
	if _, err := fork.Remove(tree, "no such feature"); err == nil {
		t.Error("an unknown feature is taken off")
	}
}

func each(names []string) (alone [][]string) {
	for _, name := range names {
		alone = append(alone, []string{name})
	}
	return alone
}
