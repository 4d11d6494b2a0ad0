package bench

import (
	"testing"

	"github.com/cutroom/cutroom/e2e/report"
)

// What a benchmark did not report meets no target, on either side of it.
func TestMissingNumbersMeetNoTarget(t *testing.T) {
	t.Parallel()
	found := parseNumbers("goos: linux\nBenchmarkLeases/model-2   1   12345 ns/op   16999 B/lease\nPASS\n", "BenchmarkLeases")
	for unit, met := range map[string]bool{"B/lease": true, "KiB/lease": false} {
		value := found.of("BenchmarkLeases/model", unit)
		below, above := report.Bound{Value: value, Target: 20000, AtMost: true}, report.Bound{Value: value, Target: 10000}
		if below.Met() != met || above.Met() != met {
			t.Errorf("%s: %v, %v", unit, below, above)
		}
	}
}
