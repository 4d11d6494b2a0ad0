//go:build mutations

package soak

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/e2e/mutations"
	"github.com/cutroom/cutroom/e2e/stack"
)

var only = flag.String("mutation", "", "only those whose name contains this")

// Each mutation that a soak must find is found with the same load.
func TestSoakFindsMistakes(t *testing.T) {
	list, err := mutations.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		if len(m.Soak) == 0 || !strings.Contains(m.Name, *only) {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			bin, err := build(t.Context(), m, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			o := asked(t)
			o.Bin, o.FirstFinding = bin, true
			report, err := Run(t.Context(), o)
			if report == nil {
				t.Fatal(err)
			}
			found := func(finding string) bool {
				return slices.ContainsFunc(m.Soak, func(part string) bool { return strings.Contains(finding, part) })
			}
			if at := slices.IndexFunc(report.Findings, found); at >= 0 {
				t.Logf("found: %s (%d findings)", report.Findings[at], len(report.Findings))
			} else {
				t.Errorf("not found (%v)\n%s", err, report.Page())
			}
		})
	}
}

// build compiles the roles with a mistake.
func build(ctx context.Context, m mutations.Mutation, dir string) (bin string, _ error) {
	root, err := stack.Root()
	if err != nil {
		return "", err
	}
	overlay, err := m.Overlay(root, dir)
	if err != nil {
		return "", err
	}
	bin = filepath.Join(dir, "bin")
	if err := stack.Build(ctx, bin, "-overlay", overlay); err != nil {
		return "", fmt.Errorf("mutation %q: %w", m.Name, err)
	}
	return bin, nil
}
