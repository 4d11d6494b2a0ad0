package fork_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/e2e/fork"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// jumps are the commits at which the fork of the test looks at upstream, the first of which
// it is made of, counted back from upstream's last.
var jumps = []int{100, 75, 50, 25, 0}

// mostConflicts is how many files in a hundred commits of upstream may conflict with a step
// that a fork has: one for each time that a commit changed a line beside the step's. Which
// commits these are changes with each commit.
const mostConflicts = 4

// Files in which a step is declared and listed.
const (
	steps = "shared/workflow/steps.go"
	list  = "workerrole/internal/step/step.go"
)

const newModule = "example.com/acme/" + newName

// A fork with a step of its own follows a hundred commits of upstream.
func TestForkFollowsUpstream(t *testing.T) {
	azuritetest.Slow(t, "renames five commits of the repository")
	root, commits := upstreamCommits(t)
	if len(commits) == 0 {
		return
	}
	tree := filepath.Join(t.TempDir(), "tree")
	run(t, root, "git", "clone", "--quiet", "--no-checkout", root, tree)
	configure(t, tree)
	run(t, tree, "git", "checkout", "--quiet", "-B", "main", commits[0])
	if _, err := fork.Rename(tree, newModule, newName); err != nil {
		t.Fatal(err)
	}
	run(t, tree, "git", "commit", "--quiet", "-a", "-m", "A fork")
	added := commitStep(t, tree)

	var conflicts []string
	for _, commit := range commits[1:] {
		_, err := fork.Sync(tree, root, commit)
		if conflict := new(fork.ConflictError); errors.As(err, &conflict) {
			t.Logf("at %.12s: %v", commit, err)
			conflicts = append(conflicts, conflict.Files...)
			resolve(t, tree, conflict.Files)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d conflicts in %d merges", len(conflicts), len(jumps)-1)
	if len(conflicts) > mostConflicts {
		t.Errorf("more than %d conflicts: %q", mostConflicts, conflicts)
	}
	changed := lines(run(t, tree, "git", "diff", "--ignore-all-space", "--numstat", "upstream", "HEAD"))
	if !slices.Equal(changed, added) {
		t.Errorf("the fork differs from upstream by\n%q, want its step\n%q", changed, added)
	}
	run(t, tree, "go", "vet", "./shared/workflow")

	before := run(t, tree, "git", "rev-parse", "HEAD", "upstream")
	run(t, tree, "make", "sync", "UPSTREAM="+root, "REF="+commits[len(commits)-1]) // as the fork itself has it now
	after := run(t, tree, "git", "rev-parse", "HEAD", "upstream") + run(t, tree, "git", "status", "--porcelain")
	if after != before {
		t.Errorf("the same commit again changed\n%sto\n%s", before, after)
	}
}

// upstreamCommits returns the repository and the commits of jumps, or as far back as the clone
// goes; none, with a word, where there is no history of upstream. In a fork these are
// upstream's commits, not its own.
func upstreamCommits(t *testing.T) (root string, commits []string) {
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	last := "HEAD"
	if recorded, err := os.ReadFile(filepath.Join(root, ".upstream")); err == nil {
		last = strings.Fields(string(recorded))[0]
	}
	if err := exec.Command("git", "-C", root, "cat-file", "-e", last+"^{commit}").Run(); err != nil {
		t.Logf("NOT SHOWN: upstream's commit %s is not here: %v", last, err)
		return root, nil
	}
	history := lines(run(t, root, "git", "rev-list", "--first-parent", "--max-count", "101", last))
	for _, back := range jumps {
		commits = append(commits, history[min(back, len(history)-1)])
	}
	t.Logf("%d commits of upstream are here", len(history))
	return root, commits
}

// step is what a step of the fork's own adds to files of upstream: those that
// docs/add-a-step.md names, but for the comment of package step, which some commits have not.
var step = []struct{ file, after, text string }{
	{steps, `StepLoudness = "loudness"`, "\tStepBlackness = \"blackness\"\n"},
	{steps, "{Name: StepLoudness,", "\t{Name: StepBlackness, Stage: AfterReady, Queues: []string{Audio}},\n"},
	{list, "workflow.StepFinish:", "\t\tworkflow.StepBlackness: Blackness{n.Tool},\n"},
	{"docs/design.md", "| loudness |", "| blackness | after ready | `audio` | the pictures | spans | index |\n"},
	{"CHANGELOG.md", "loudness (EBU R128)", "- Black spans are found.\n"},
}

// addStep adds the step to one of its files.
func addStep(t *testing.T, tree, file string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(tree, file))
	if err != nil {
		t.Fatal(err)
	}
	for _, addition := range step {
		text := addition.text
		if strings.Contains(string(content), "Stage: engine.") { // since the engine is a package of its own
			text = strings.ReplaceAll(text, "Stage: ", "Stage: engine.")
		}
		if addition.file == file {
			insert(t, filepath.Join(tree, file), addition.after, text)
		}
	}
	if filepath.Ext(file) == ".go" {
		run(t, tree, "gofmt", "-w", file)
	}
}

// commitStep commits the step, and returns what "git diff --numstat" says of it, without the
// lines that gofmt aligns anew.
func commitStep(t *testing.T, tree string) (numstat []string) {
	for _, file := range []string{steps, list, "docs/design.md", "CHANGELOG.md"} {
		addStep(t, tree, file)
	}
	commit(t, tree, "workerrole/internal/step/blackness.go", blackness)
	return lines(run(t, tree, "git", "diff", "--ignore-all-space", "--numstat", "HEAD~1", "HEAD"))
}

const blackness = `package step

import (
	"context"

	"` + newModule + `/shared/videostore"
	"` + newModule + `/workerrole/internal/ffmpeg"
	"` + newModule + `/workerrole/internal/pipeline"
)

// Blackness finds black pictures.
type Blackness struct{ Tool *ffmpeg.Tool }

// Run implements pipeline.Step.
func (s Blackness) Run(ctx context.Context, w *pipeline.Work) (videostore.Commit, error) {
	return videostore.Commit{}, nil
}
`

// insert puts a text below the first line that holds another.
func insert(t *testing.T, file, after, text string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	above, below, found := strings.Cut(string(content), after)
	rest, below, ends := strings.Cut(below, "\n")
	if !found || !ends {
		t.Fatalf("%s has no line with %q", file, after)
	}
	if err := os.WriteFile(file, []byte(above+after+rest+"\n"+text+below), 0o600); err != nil {
		t.Fatal(err)
	}
}

// resolve ends a merge: upstream's file, and in it the step again.
func resolve(t *testing.T, tree string, files []string) {
	for _, file := range files {
		run(t, tree, "git", "checkout", "--quiet", "--theirs", "--", file)
		addStep(t, tree, file)
	}
	run(t, tree, "git", "commit", "--quiet", "--all", "--no-edit")
}

// configure gives a repository an author of commits.
func configure(t *testing.T, tree string) {
	t.Helper()
	run(t, tree, "git", "config", "user.name", "fork")
	run(t, tree, "git", "config", "user.email", "fork@example.com")
}

// commit commits the tree with a file of this content, and returns the commit.
func commit(t *testing.T, tree, path, content string) string {
	t.Helper()
	write(t, tree, path, content)
	run(t, tree, "git", "add", "--all")
	run(t, tree, "git", "commit", "--quiet", "-m", path)
	return lines(run(t, tree, "git", "rev-parse", "HEAD"))[0]
}

func lines(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }

func write(t *testing.T, tree, path, content string) {
	t.Helper()
	file := filepath.Join(tree, path)
	err := os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		err = os.WriteFile(file, []byte(content), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
