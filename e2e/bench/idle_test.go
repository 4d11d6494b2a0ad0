package bench

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/workflow"
)

// What the pages say that an idle stack costs follows from the pauses of the queues and the
// price of a request to a queue, and agrees with the run that is kept.
func TestIdleCostIsWhatThePagesSay(t *testing.T) {
	t.Parallel()
	worker := declared(workflow.Specs)
	near := func(what string, said, is, tolerance float64) {
		t.Helper()
		if math.Abs(said-is) > tolerance*is {
			t.Errorf("%s: %v, want about %.2f", what, said, is)
		}
	}
	near("README.md, an idle stack of two workers, USD a month", number(t, "README.md", `an idle stack \| some (\d+) USD a month`), 2*worker.usd(), 0.1)
	near("docs/azure.md, one idle worker, USD a month", number(t, "docs/azure.md", `requests of storage \| (\d+) \|`), worker.usd(), 0.15)
	if sum := fmt.Sprintf("%.0f + %.0f = %.0f", worker.first, worker.asleep, worker.looks()); !strings.Contains(page(t, "docs/azure.md"), sum) {
		t.Errorf("docs/azure.md does not say %s, the looks of an idle worker in a minute", sum)
	}
	kept := number(t, "docs/benchmarks.md", regexp.QuoteMeta(looks.label)+` +(\d+) `)
	near("docs/benchmarks.md, looks of two workers in a minute", kept, 2*worker.looks(), 0.1)
	near("docs/benchmarks.md, USD a month for them", number(t, "docs/benchmarks.md", regexp.QuoteMeta(looks.label)+` +\d+ +([\d.]+) USD`), monthly(looks, kept), 0.01)
}

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// number is what a pattern captures in a page.
func number(t *testing.T, name, pattern string) float64 {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(page(t, name))
	if found == nil {
		t.Fatalf("%s has nothing like %s", name, pattern)
	}
	n, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
