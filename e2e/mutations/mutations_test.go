package mutations

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
)

// Every mutation changes texts that are there, once, and names a test that is there: one
// that follows the code no longer would say nothing about the tests.
func TestMutationsFollowTheCode(t *testing.T) {
	t.Parallel()
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range exercises(t) {
		all = append(all, e.Mutation)
	}
	for _, m := range all {
		if m.Name == "" || m.Says == "" || len(m.Edits) == 0 || names[m.Name] {
			t.Errorf("%q needs a name of its own, edits, and what the test says", m.Name)
		}
		names[m.Name] = true
		if _, err := m.changed(root); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		if !declares(t, filepath.Join(root, m.Package), m.Test) {
			t.Errorf("%s: no %s in the tests of %s", m.Name, m.Test, m.Package)
		}
	}
}

// declares reports whether the tests of a package declare one of this name.
func declares(t *testing.T, dir, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(test, "/")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(t *testing.T)") {
			return true
		}
	}
	return false
}

// Roles that are built already would be those without the mistake.
func TestRolesAreBuiltWithTheMistake(t *testing.T) {
	t.Setenv(stacktest.BinVariable, "somewhere")
	t.Setenv("GOFLAGS", "-buildvcs=false")
	flags := ""
	for _, v := range environ(" -overlay=/overlay.json") {
		if strings.HasPrefix(v, stacktest.BinVariable+"=") {
			t.Errorf("the test would be given %s", v)
		}
		if given, found := strings.CutPrefix(v, "GOFLAGS="); found {
			flags += given
		}
	}
	if flags != "-buildvcs=false -overlay=/overlay.json" {
		t.Errorf("GOFLAGS is %q", flags)
	}
}

// A test that fails with other words has not seen the mistake, and one that cannot be built
// has seen nothing.
func TestWhatCountsAsFound(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: runs go test")
	}
	const guard = "case unicode.IsControl(r), "
	for name, c := range map[string]struct {
		mistake, says string
		found, broken bool
	}{
		"a mistake":            {"case false && unicode.IsControl(r), ", "visible is true", true, false},
		"other words":          {"case false && unicode.IsControl(r), ", "no such words", false, false},
		"no mistake":           {"case unicode.IsControl(rune(r)), ", "", false, false},
		"what does not build":  {"case unknown.IsControl(r), ", "", false, true},
		"what does not change": {"", "", false, true},
	} {
		m := Mutation{
			Name: name, Edits: []Edit{{File: "shared/visible/visible.go", Old: guard, New: c.mistake}},
			Package: "./shared/visible", Test: "TestVisible", Says: c.says,
		}
		if c.mistake == "" {
			m.Edits[0].Old = "no such text"
		}
		found, said, err := m.Run(t.Context())
		if found != c.found || (err != nil) != c.broken {
			t.Errorf("%s: found %t, %v; it said\n%s", name, found, err, said)
		}
	}
}
