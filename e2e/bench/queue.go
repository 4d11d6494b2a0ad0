package bench

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"strconv"
	"strings"

	"github.com/cutroom/cutroom/e2e/report"
	"github.com/cutroom/cutroom/e2e/stack"
)

// numbers are what benchmarks have reported: by name, without the number of processors, and unit.
type numbers map[[2]string]float64

// of returns a number, or NaN, which meets no target, when the benchmark does not report it.
func (n numbers) of(benchmark, unit string) float64 {
	if value, is := n[[2]string{benchmark, unit}]; is {
		return value
	}
	return math.NaN()
}

// goBench runs a benchmark of a package.
func goBench(ctx context.Context, pkg, name, times string) (numbers, error) {
	root, err := stack.Root()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "test", pkg, "-run", "^$", "-bench", "^"+name+"$", "-benchtime", times, "-timeout", "1h")
	cmd.Dir, cmd.Env = root, stack.Environ()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("run %s of %s: %w\n%s", name, pkg, err, out)
	}
	return parseNumbers(string(out), name), nil
}

func parseNumbers(out, name string) numbers {
	found := numbers{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.HasPrefix(fields[0], name) {
			continue
		}
		which, _, _ := strings.Cut(fields[0], "-")
		for i := 2; i+1 < len(fields); i += 2 {
			found[[2]string{which, fields[i+1]}], _ = strconv.ParseFloat(fields[i], 64)
		}
	}
	return found
}

// queue runs the runtime's own benchmarks, which drain the same backlog with it and with the
// bare SDK, in turn; with spans and without; and hold 10,000 leases at once.
func queue(ctx context.Context, b *bench) (report.Section, error) {
	rates, err := goBench(ctx, "./shared/azq", "BenchmarkRuntime", pick(b, "2x", "10x"))
	if err != nil {
		return report.Section{}, err
	}
	spans, err := goBench(ctx, "./shared/tracing", "BenchmarkSpans", pick(b, "2x", "10x"))
	if err != nil {
		return report.Section{}, err
	}
	s := report.Section{Rows: [][]string{{"empty handler", "items per second", "receives per item", "allocations per item", "runtime against it"}}}
	for _, slots := range []string{"16", "32"} {
		n := func(unit string) float64 { return rates.of("BenchmarkRuntime/"+slots, unit) }
		row := func(title, program string) {
			against := ""
			if program != "runtime" {
				against = fmt.Sprintf("%.2f", n("runtime/"+program))
			}
			s.Rows = append(s.Rows, []string{title, fmt.Sprintf("%.0f", n(program+"-items/s")),
				fmt.Sprintf("%.2f", n(program+"-receives/item")), fmt.Sprintf("%.0f", n(program+"-allocs/item")), against})
		}
		row("runtime, "+slots+" slots", "runtime")
		row(slots+" loops that receive one, work, delete", "loop")
		row("one receiver of 32 at a time, "+slots+" that delete", "prefetch")
	}
	s.Bounds = []report.Bound{
		{Name: "throughput against the bare loops, 16 slots", Value: rates.of("BenchmarkRuntime/16", "runtime/loop"), Target: 1.6},
		{Name: "throughput against the receiver of 32, 32 slots", Value: rates.of("BenchmarkRuntime/32", "runtime/prefetch"), Target: 0.95},
		{Name: "allocations for an item", Value: rates.of("BenchmarkRuntime/32", "runtime-allocs/item"), Target: 500, AtMost: true},
		{Name: "time without spans ÷ with all of them sent", Value: spans.of("BenchmarkSpans", "untraced/traced"), Target: 0.98},
	}
	s.Notes = []string{"the receiver of 32 is for comparison: its messages wait in the process while their visibility runs out, which the runtime never lets them"}
	if b.Quick {
		return s, nil
	}
	found, err := goBench(ctx, "./shared/azq/histories", "BenchmarkLeases", "1x")
	if err != nil {
		return report.Section{}, err
	}
	n := func(unit string) float64 { return found.of("BenchmarkLeases/model", unit) }
	s.Bounds = append(s.Bounds, report.Bound{Name: "memory for each of 10,000 leases", Value: n("B/lease") / 1024, Target: 40, AtMost: true, Unit: " KiB"},
		report.Bound{Name: "longest time between two hidings of a message ÷ visibility", Value: n("gap/visibility"), Target: 0.5, AtMost: true})
	s.Notes = append(s.Notes, fmt.Sprintf("10,000 leases in one process, on the model of the service: none lost, %.0f renewals a second, %.2f ms of processor for each", n("renewals/s"), n("ms-cpu/renewal")))
	return s, nil
}
