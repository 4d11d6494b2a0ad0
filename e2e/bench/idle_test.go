package bench

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"testing"
)

// What the pages say that an idle stack costs agrees with the run that is kept, and that with
// the price of a request to a queue.
func TestIdleCostIsWhatThePagesSay(t *testing.T) {
	t.Parallel()
	near := func(what string, said, is, tolerance float64) {
		t.Helper()
		if math.Abs(said-is) > tolerance*is {
			t.Errorf("%s: %v, want about %.2f", what, said, is)
		}
	}
	const cell = ` +\d+: ([\d.]+)`
	kept := captured(t, "docs/benchmarks.md", `(?m)^  all`+cell+cell+cell+`$`)
	said := captured(t, "docs/azure.md", `an idle stack \| ([\d.]+) USD a month with two workers, ([\d.]+) with twenty`)
	near("docs/azure.md, an idle stack of two workers, USD a month", said[0], kept[1], 0.1)
	near("docs/azure.md, an idle stack of twenty workers, USD a month", said[1], kept[2], 0.1)
	said = captured(t, "docs/azure.md", `cost ([\d.]+) USD with one worker or two, and ([\d.]+) with twenty`)
	near("docs/azure.md, one idle worker, USD a month", said[0], kept[0], 0.1)
	near("docs/azure.md, twenty idle workers, USD a month", said[1], kept[2], 0.1)
	looked := captured(t, "docs/benchmarks.md", regexp.QuoteMeta(lengths.label)+` +(\d+): ([\d.]+)`)
	near("docs/benchmarks.md, USD a month for lengths", looked[1], monthly(lengths, looked[0]), 0.02)
	near("docs/azure.md, lengths a minute", captured(t, "docs/azure.md", `(\d+) a minute × 43,800 minutes`)[0], looked[0], 0.05)
}

// captured are the numbers that a pattern captures in a page.
func captured(t *testing.T, name, pattern string) (all []float64) {
	t.Helper()
	text, err := os.ReadFile("../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(pattern).FindSubmatch(text)
	if found == nil {
		t.Fatalf("%s has nothing like %s", name, pattern)
	}
	for _, digits := range found[1:] {
		n, err := strconv.ParseFloat(string(digits), 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}
