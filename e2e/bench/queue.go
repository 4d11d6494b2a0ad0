package bench

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/cutroom/cutroom/e2e/stack"
)

// queue runs the worker role's own benchmark, which drains the same backlog with
// the runtime and with a loop over the SDK, in turn.
func queue(ctx context.Context, b *bench) (Result, error) {
	root, err := stack.Root()
	if err != nil {
		return Result{}, err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "./workerrole/internal/consumer", "-run", "^$", "-bench", "^BenchmarkRuntime$",
		"-benchtime", pick(b, "2x", "10x"))
	cmd.Dir, cmd.Env = root, environ()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return Result{}, fmt.Errorf("run the benchmark of the worker role: %w\n%s", err, out)
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
	if found["ratio"] == 0 {
		return Result{}, fmt.Errorf("the benchmark of the worker role prints no ratio:\n%s", out)
	}
	return Result{
		Rows: [][]string{
			{"items per second", "runtime", "bare SDK loop", "ratio"},
			{"empty handler, 16 slots", fmt.Sprintf("%.0f", found["runtime-items/s"]), fmt.Sprintf("%.0f", found["bare-items/s"]), fmt.Sprintf("%.2f", found["ratio"])},
		},
		Ratios: []Ratio{{Name: "throughput", Value: found["ratio"], Target: 0.9}},
	}, nil
}
