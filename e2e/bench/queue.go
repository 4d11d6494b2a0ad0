package bench

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/cutroom/cutroom/e2e/report"
	"github.com/cutroom/cutroom/e2e/stack"
)

// queue runs the worker role's own benchmark, which drains the same backlog with
// the runtime and with a loop over the SDK, in turn.
func queue(ctx context.Context, b *bench) (report.Section, error) {
	root, err := stack.Root()
	if err != nil {
		return report.Section{}, err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "./shared/azq", "-run", "^$", "-bench", "^BenchmarkRuntime$",
		"-benchtime", pick(b, "2x", "10x"))
	cmd.Dir, cmd.Env = root, stack.Environ()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return report.Section{}, fmt.Errorf("run the benchmark of the worker role: %w\n%s", err, out)
	}
	found := map[string]float64{} // unit → value
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.HasPrefix(fields[0], "BenchmarkRuntime") {
			continue
		}
		for i := 2; i+1 < len(fields); i += 2 {
			found[fields[i+1]], _ = strconv.ParseFloat(fields[i], 64)
		}
	}
	if found["runtime/prefetch"] == 0 || found["runtime/loop"] == 0 || found["runtime/traced"] == 0 {
		return report.Section{}, fmt.Errorf("the benchmark of the worker role prints no ratios:\n%s", out)
	}
	number := func(unit, format string) string { return fmt.Sprintf(format, found[unit]) }
	return report.Section{
		Rows: [][]string{
			{"empty handler, 16 at a time", "items per second", "runtime against it"},
			{"runtime", number("runtime-items/s", "%.0f"), ""},
			{"loops that receive one, work, delete", number("loop-items/s", "%.0f"), number("runtime/loop", "%.2f")},
			{"runtime that sends every span of its traces", number("traced-items/s", "%.0f"), number("runtime/traced", "%.2f")},
			{"one receiver of 32 at a time, 16 that delete", number("prefetch-items/s", "%.0f"), number("runtime/prefetch", "%.2f")},
		},
		Bounds: []report.Bound{
			{Name: "throughput against the bare loops", Value: found["runtime/loop"], Target: 0.9},
			{Name: "time without traces ÷ with all of them sent", Value: 1 / found["runtime/traced"], Target: 0.98},
		},
		Notes: []string{"the receiver of 32 is for comparison: its messages wait in the process while their visibility runs out, which the runtime never lets them"},
	}, nil
}
