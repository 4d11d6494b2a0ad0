package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cutroom/cutroom/e2e/mutations"
	"github.com/cutroom/cutroom/e2e/stack"
)

// Mutate builds the roles with the mistake, and soaks them. It returns an error when the
// mutation does not apply or build, or when it stayed unfound: of findings one must be of
// those that the mutation names.
func Mutate(ctx context.Context, m mutations.Mutation, o Options) (err error) {
	root, err := stack.Root()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "cutroom-mutation-")
	if err != nil {
		return fmt.Errorf("mutation: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	overlay, err := m.Overlay(root, dir)
	if err != nil {
		return err
	}
	bin := filepath.Join(dir, "bin")
	if err := stack.Build(ctx, bin, "-overlay", overlay); err != nil {
		return fmt.Errorf("mutation %q: %w", m.Name, err)
	}
	o.Bin, o.FirstFinding = bin, true
	began := time.Now()
	report, err := Run(ctx, o)
	if report == nil {
		return fmt.Errorf("mutation %q: %w", m.Name, err)
	}
	for _, finding := range report.Findings {
		if slices.ContainsFunc(m.Soak, func(part string) bool { return strings.Contains(finding, part) }) {
			_, _ = fmt.Fprintf(o.Log, "mutation %q was found in %v: %s (%d findings)\n", m.Name, time.Since(began).Round(time.Second), finding, len(report.Findings))
			return nil
		}
	}
	return errors.Join(err, fmt.Errorf("mutation %q was not found\n%s", m.Name, report.Page()))
}
