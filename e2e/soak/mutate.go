package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cutroom/cutroom/e2e/stack"
)

// Edit replaces a text that is there once.
type Edit struct{ File, Old, New string }

// Mutation is a mistake in the sources that a soak must find.
type Mutation struct {
	Name  string
	Edits []Edit
	// Finds are parts of findings, one of which must be there: a stack that is
	// merely slow must not pass for one that is wrong.
	Finds []string
}

// Mutations each take away one thing that keeps the system right.
var Mutations = []Mutation{
	{
		Name:  "the commit without its fence",
		Finds: []string{"was committed twice", "was done and is"},
		Edits: []Edit{{
			File: "shared/videostore/claim.go",
			Old:  "ops := []tablestore.Op{{Kind: tablestore.OpReplace, Entity: step.row(), IfMatch: c.Step.etag}}",
			New:  "ops := []tablestore.Op{{Kind: tablestore.OpReplace, Entity: step.row(), IfMatch: \"*\"}}",
		}},
	},
	{
		Name:  "no reconciler",
		Finds: []string{"was uploaded and is uploaded", "was uploaded and is processing", "is still being deleted", "promise "},
		Edits: []Edit{{
			File: "workerrole/main.go",
			Old:  "Do: reconciler.Pass}",
			New:  "Do: func(context.Context) (upkeep.Pass, error) { _ = reconciler.Pass; return upkeep.Pass{}, nil }}",
		}},
	},
	{
		// A chunk is counted twice: by the number of its first frame, and by how many
		// follow. Either finds frames that are missing in front.
		Name:  "no frame count",
		Finds: []string{"was uploaded and is failed corrupt_media", "frames, want", "the picture at place"},
		Edits: []Edit{{
			File: "workerrole/internal/media/chunk.go",
			Old:  "want := chunk.To - chunk.From; e.Output.Frames != want && !last {",
			New:  "want := chunk.To - chunk.From; false && e.Output.Frames != want && !last {",
		}, {
			File: "workerrole/internal/media/chunk.go",
			Old:  "s.start*plan.FPS.Num != at {",
			New:  "false && s.start*plan.FPS.Num != at {",
		}},
	},
	{
		Name:  "finish without its insert deciding",
		Finds: []string{":finish:00000 of"},
		Edits: []Edit{{
			File: "shared/videostore/fan.go",
			Old:  "{Kind: tablestore.OpInsert, Entity: last.row()},",
			New:  "{Kind: tablestore.OpUpsert, Entity: last.row()},",
		}},
	},
	{
		Name:  "finish promised one part too soon",
		Finds: []string{"was promised while"},
		Edits: []Edit{{
			File: "shared/videostore/fan.go",
			Old:  "if n > 0 {",
			New:  "if n > 1 {",
		}},
	},
}

// Mutate copies the sources, makes the mistake, builds the roles and soaks them.
// It returns an error when the mutation does not apply or build, or when it
// stayed unfound.
func Mutate(ctx context.Context, m Mutation, o Options) (err error) {
	root, err := stack.Root()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "cutroom-mutation-")
	if err != nil {
		return fmt.Errorf("mutation: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	tree, bin := filepath.Join(dir, "tree"), filepath.Join(dir, "bin")
	if err := copyTree(root, tree); err != nil {
		return fmt.Errorf("mutation %q: %w", m.Name, err)
	}
	for _, e := range m.Edits {
		if err := e.apply(tree); err != nil {
			return fmt.Errorf("mutation %q: %w", m.Name, err)
		}
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", bin+string(filepath.Separator), "./webrole", "./workerrole")
	build.Dir = tree
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("mutation %q does not build: %w\n%s", m.Name, err, out)
	}
	o.Bin, o.Older, o.FirstFinding = bin, "", true
	began := time.Now()
	report, err := Run(ctx, o)
	if report == nil {
		return fmt.Errorf("mutation %q: %w", m.Name, err)
	}
	for _, finding := range report.Findings {
		if slices.ContainsFunc(m.Finds, func(part string) bool { return strings.Contains(finding, part) }) {
			_, _ = fmt.Fprintf(o.Log, "mutation %q was found in %v: %s (%d findings)\n", m.Name, time.Since(began).Round(time.Second), finding, len(report.Findings))
			return nil
		}
	}
	return errors.Join(err, fmt.Errorf("mutation %q was not found\n%s", m.Name, report.Page()))
}

func (e Edit) apply(tree string) error {
	path := filepath.Join(tree, filepath.FromSlash(e.File))
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read what is to be changed: %w", err)
	}
	if n := strings.Count(string(text), e.Old); n != 1 {
		return fmt.Errorf("%s has %q %d times, want once: the mutation must follow the code", e.File, e.Old, n)
	}
	return os.WriteFile(path, []byte(strings.Replace(string(text), e.Old, e.New, 1)), 0o600)
}

// copyTree copies what the build needs: no history, nothing that was built.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", ".run", ".tools", "bin", "node_modules"}, entry.Name()) {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		}
		if !entry.Type().IsRegular() || entry.Name() == ".git" {
			return nil
		}
		in, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = in.Close() }()
		out, err := os.Create(filepath.Join(to, name))
		if err != nil {
			return err
		}
		_, err = io.Copy(out, in)
		return errors.Join(err, out.Close())
	})
}
