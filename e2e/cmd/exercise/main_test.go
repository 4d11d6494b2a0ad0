package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/e2e/mutations"
	"github.com/cutroom/cutroom/e2e/stack"
)

// An exercise from its list to green: three hints, then the diff, and a mend in other words
// than ours.
func TestOneExercise(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: makes a clone and runs go test")
	}
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(root, ".run")
	if err := os.MkdirAll(run, 0o755); err != nil {
		t.Fatal(err)
	}
	clones, err := os.MkdirTemp(run, "exercises-") // below the root, where the emulator is found
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(clones); err != nil {
			t.Error(err)
		}
	})
	do := func(n string, check bool, fails string, want ...string) {
		t.Helper()
		var out strings.Builder
		err := desk{root, clones, &out}.run(t.Context(), n, check)
		if fails == "" && err != nil || fails != "" && (err == nil || !strings.Contains(err.Error(), fails)) {
			t.Fatalf("N=%s: %v, want %q; it said\n%s", n, err, fails, out.String())
		}
		for _, part := range want {
			if !strings.Contains(out.String(), part) {
				t.Errorf("N=%s does not say %q:\n%s", n, part, out.String())
			}
		}
	}
	do("13", false, "from 1 to 12")
	do("7", true, "not begun")
	do("", false, "", " 1  new ", " 7  new ", "12  new ")
	do("7", false, "", "Exercise 7 of 12", "bib 1234 before bib 2", "make exercise N=7 CHECK=1")
	clone := filepath.Join(clones, "exercise-7")
	commits, err := exec.Command("git", "-C", clone, "log", "--format=%s").Output()
	if err != nil || string(commits) != "Exercise\n" {
		t.Errorf("the history of the clone is %q, %v", commits, err)
	}
	if _, err := os.Stat(filepath.Join(clone, "e2e/mutations")); err == nil {
		t.Error("the clone has the answers")
	}

	do("7", true, "red", "--- FAIL: TestThePapersExample", "Hint 1 of 3")
	source := filepath.Join(clone, "shared/registrations/registration.go")
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	write := func(mend string) {
		t.Helper()
		const broken = "func pad(n, _ int) string { return strconv.Itoa(n) }"
		if err := os.WriteFile(source, []byte(strings.Replace(string(text), broken, mend, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("func pad(n, width int) string { return unknown(n) }")
	do("7", true, "do not build", "")
	write(`func pad(n, width int) string { return fmt.Sprintf("%d", n) }`)
	do("7", true, "red", "Hint 2 of 3")
	do("", false, "", " 7  begun")
	do("7", false, "", "Exercise 7 of 12", "Hint: Write 2, 12 and 1234", "Hint: All numbers")
	if err := os.WriteFile(filepath.Join(clone, ".git", "exercise"), []byte(`{"Hints":3}`), 0o600); err != nil {
		t.Fatal(err)
	}
	do("7", true, "red", "No hint is left", "+func pad(n, width int) string { return tablestore.Pad(")
	write(`func pad(n, width int) string { return fmt.Sprintf("%0*d", width, n) }`)
	do("7", true, "", "is green, with 3 hints")
	do("", false, "", " 7  green")

	solved := []byte(`{"Hints":1,"Green":true,"Solved":true}`)
	if err := os.WriteFile(filepath.Join(clone, ".git", "exercise"), solved, 0o600); err != nil {
		t.Fatal(err)
	}
	write(`func pad(n, width int) string { return fmt.Sprintf("%d", n) }`) // tried on after it was solved
	do("7", true, "red", "uses no hint")
	do("", false, "", " 7  begun")
	write(`func pad(n, width int) string { return fmt.Sprintf("%0*d", width, n) }`)
	do("7", true, "", "is green, with 1 hints")
}

// tempting are mends that end what the text tells of and are wrong: each takes the place of ours.
var tempting = []struct {
	number    int
	name      string
	old, mend string
}{
	{4, "the promise in a transaction of its own", `more, inserted(out))
	etags, err := s.subjects.Submit(ctx, ops)
`, `more)
	etags, err := s.subjects.Submit(ctx, ops)
	if err == nil && len(out) > 0 {
		_, err = s.subjects.Submit(ctx, inserted(out))
	}
`},
	{6, "always base64", "if !i.plain {\n", "if !i.plain || true {\n"},
	{
		10, "every unclear view is counted", `if slices.Contains(strings.Fields(row.String("Latest")), viewID) {`,
		`if slices.Contains(strings.Fields(row.String("Latest")+" "+viewID), viewID) {`,
	},
	{
		5, "sent before it can be claimed", "	if err := r.Store.Reopen(ctx, view, lost); err != nil {\n		return 0, err\n	}\n	return len(lost), r.Store.Resend(ctx, view.Record, lost)\n",
		"	if err := r.Store.Resend(ctx, view.Record, lost); err != nil {\n		return 0, err\n	}\n	return len(lost), r.Store.Reopen(ctx, view, lost)\n",
	},
	{11, "a large window", "min(before.Items+Window, s.windowItems(planOf(doc)))", "min(before.Items+25, s.windowItems(planOf(doc)))"},
	{12, "whatever the option says", "k.row >= b.options.OpensAfter", "k.row >= 3"},
}

func TestTemptingMendsStayRed(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: runs go test")
	}
	all, err := mutations.Exercises()
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range tempting {
		e := all[wrong.number-1]
		t.Run(wrong.name, func(t *testing.T) {
			t.Parallel()
			m := e.Mutation
			m.Name, m.Says = wrong.name, ""
			m.Edits = []mutations.Edit{{File: e.Look, Old: wrong.old, New: wrong.mend}}
			if found, said, err := m.Run(t.Context()); !found || err != nil {
				t.Errorf("%d is not red: %v\n%s", e.Number, err, said)
			}
		})
	}
}

// Without the guard the check of an exercise is red, and with it green.
func TestExercisesAreRedAndGreen(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: runs go test")
	}
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	all, err := mutations.Exercises()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		t.Run(e.Test, func(t *testing.T) {
			t.Parallel()
			if found, said, err := e.Run(t.Context()); !found || err != nil {
				t.Errorf("%d %s is not red with %q: %v\n%s", e.Number, e.Name, e.Says, err, said)
			}
			if green, said, err := e.Check(t.Context(), root); !green || err != nil {
				t.Errorf("%d %s is not green: %v\n%s", e.Number, e.Name, err, said)
			}
		})
	}
}
