// Package mutations is a list of mistakes. Each takes a guard out of the product and names
// the test that must be red without it. `make mutations` makes them one by one, so that
// who has changed tests sees that they find no less than before.
//
// The sources stay as they are: go is given an overlay, in which the changed files stand
// in their places, also for the roles that a test builds.
//
//	storage.txt  tables, and the rows of videos and workers
//	runtime.txt  the queue runtime, in random histories
//	worker.txt   queues, upkeep, trouble
//	media.txt    what is asked of ffmpeg, and what it made
//	web.txt      requests, and the board
//
// exercises.txt has twelve more, for people to mend: see [Exercise].
//
// parse.go says how the lists are written.
package mutations

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cutroom/cutroom/e2e/stack"
)

// Edit replaces a text that is there once.
type Edit struct {
	File, Old, New string

	lines map[byte]int // that were read, by their sign
}

// Mutation is a mistake in the sources that a test must find.
type Mutation struct {
	Name    string // what is taken out
	Edits   []Edit
	Package string // of the test, such as "./shared/videostore"
	Test    string // that must be red, such as "TestClaimIsAFence"; with a subtest behind a slash where that saves time
	// Says is a part of what the test prints then: one that fails because the machine is
	// slow must not pass for one that has seen the mistake.
	Says string
	// Env are more variables for the test.
	Env []string
	// Soak are parts of findings, one of which a soak must report. Empty: no soak is asked.
	Soak []string

	notes []note
}

type note struct{ field, text string }

// Overlay writes the files as the mistake leaves them into dir, which must exist, and
// returns the path of the list that go's -overlay wants.
func (m Mutation) Overlay(root, dir string) (string, error) {
	changed, err := m.changed(root)
	if err != nil {
		return "", fmt.Errorf("mutation %q: %w", m.Name, err)
	}
	var list struct{ Replace map[string]string }
	list.Replace = map[string]string{}
	for file, text := range changed {
		path := filepath.Join(dir, fmt.Sprintf("%d-%s", len(list.Replace), filepath.Base(file)))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("mutation %q: write what is changed: %w", m.Name, err)
		}
		list.Replace[filepath.Join(root, filepath.FromSlash(file))] = path
	}
	text, err := json.Marshal(list)
	path := filepath.Join(dir, "overlay.json")
	if err = errors.Join(err, os.WriteFile(path, text, 0o600)); err != nil {
		return "", fmt.Errorf("mutation %q: write the overlay: %w", m.Name, err)
	}
	return path, nil
}

// changed returns the texts of the files that the mistake changes.
func (m Mutation) changed(root string) (map[string]string, error) {
	files := map[string]string{}
	for _, e := range m.Edits {
		text, read := files[e.File]
		if !read {
			data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.File)))
			if err != nil {
				return nil, fmt.Errorf("read what is to be changed: %w", err)
			}
			text = string(data)
		}
		if n := strings.Count(text, e.Old); n != 1 {
			return nil, fmt.Errorf("%s has %q %d times, want once: the mutation must follow the code", e.File, e.Old, n)
		}
		files[e.File] = strings.Replace(text, e.Old, e.New, 1)
	}
	return files, nil
}

// Run makes the mistake, runs the test and reports whether it found it. said is what the
// test printed. An error when the mistake does not apply or build.
func (m Mutation) Run(ctx context.Context) (found bool, said string, err error) {
	root, err := stack.Root()
	if err != nil {
		return false, "", err
	}
	dir, err := os.MkdirTemp("", "cutroom-mutation-")
	if err != nil {
		return false, "", fmt.Errorf("mutation %q: %w", m.Name, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	overlay, err := m.Overlay(root, dir)
	if err != nil {
		return false, "", err
	}
	green, said, err := m.test(ctx, root, environ(" -overlay="+overlay))
	// A panic ends the whole process.
	ended := strings.Contains(said, "--- FAIL: "+m.Test+" ") || strings.Contains(said, "panic: "+m.Says)
	return !green && err == nil && ended && strings.Contains(said, m.Says), said, err
}

// test runs the test on the sources in root. An error when they do not build, or have no such
// test.
func (m Mutation) test(ctx context.Context, root string, env []string) (green bool, said string, err error) {
	// Without vet, which knows nothing that the test does not and takes seconds.
	test := exec.CommandContext(ctx, "go", "test", "-count=1", "-vet=off", "-run", only(m.Test), m.Package)
	test.Dir, test.Env = root, append(env, m.Env...)
	var out bytes.Buffer
	test.Stdout, test.Stderr = &out, &out
	test.WaitDelay = time.Minute // what the test has started may have its output open
	failed := test.Run()
	said = out.String()
	switch {
	case ctx.Err() != nil:
		return false, said, context.Cause(ctx)
	case failed != nil && !errors.As(failed, new(*exec.ExitError)):
		return false, said, fmt.Errorf("mutation %q: run the test: %w", m.Name, failed)
	case strings.Contains(said, "[build failed]") || strings.Contains(said, "[setup failed]"):
		return false, said, fmt.Errorf("%s: %w\n%s", m.Name, ErrBuild, said)
	case strings.Contains(said, "[no tests to run]"):
		return false, said, fmt.Errorf("%s: there is no %s", m.Name, m.Test)
	}
	return failed == nil, said, nil
}

// ErrBuild says that sources do not build.
var ErrBuild = errors.New("the sources do not build")

// only is the pattern of -run for one test, or for one of its subtests.
func only(test string) string {
	parts := strings.Split(test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// builtRoles is stacktest.BinVariable, whose package no program may contain.
const builtRoles = "CUTROOM_TEST_BIN"

// environ is ours with more flags, such as the overlay, which the go of a test that builds the
// roles must know, too. So it must build them: none that are built already.
func environ(flags string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, builtRoles+"=") || strings.HasPrefix(v, "GOFLAGS=")
	})
	// A property that fails would else leave a file among the sources.
	return append(env, "RAPID_NOFAILFILE=1", strings.TrimSpace("GOFLAGS="+os.Getenv("GOFLAGS")+flags))
}
