package conformance_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq/conformance"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

func TestMain(m *testing.M) {
	if play() {
		return
	}
	azuritetest.Main(m)
}

// check checks this test program, started as a worker. On a busy machine leases are longer.
func check(t *testing.T, w conformance.Worker) (broken []string) {
	t.Helper()
	w.Command, w.Output = []string{os.Args[0]}, t.Output()
	if w.Visibility == 0 {
		w.Visibility = min(azuritetest.Patience(4*time.Second), 20*time.Second).Round(time.Second)
		w.Patience = azuritetest.Patience(10 * time.Second)
	}
	verdicts, err := conformance.Check(t.Context(), azuritetest.Account(t), azuritetest.ConnectionString(t), w)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range verdicts {
		if len(v.Broken) > 0 {
			broken = append(broken, v.Name)
			t.Logf("%s: %q", v.Name, v.Broken)
		}
	}
	return broken
}

// A worker with this library keeps every rule, and so does one of few lines with the bare SDK.
func TestGoodWorkersConform(t *testing.T) {
	t.Parallel()
	for worker, claims := range map[string]bool{"ours": true, "plain": false} {
		t.Run(worker, func(t *testing.T) {
			t.Parallel()
			w := conformance.Worker{Env: []string{"CONFORMANCE_WORKER=" + worker}, Claims: claims}
			if broken := check(t, w); len(broken) > 0 {
				t.Errorf("broken: %v", broken)
			}
		})
	}
}

// Each mistake of a worker breaks its rules, and the check says so.
func TestMistakesAreFound(t *testing.T) {
	azuritetest.Slow(t, "fifteen workers, most of which wait for the end of a lease")
	t.Parallel()
	for mistake, want := range map[string][]string{
		"keeps what it knows":         {"keeps"},
		"never renews":                {"lease"},
		"renews by a timer":           {"moves"},
		"fails what is gone":          {"replies"},
		"deletes first":               {"done", "killed"},
		"deaf":                        {"drain"},
		"never poisons":               {"failures"},
		"sends no copy":               {"poison"},
		"deletes before the row":      {"poison"},
		"fails strangers":             {"back"},
		"dies of a stale receipt":     {"stale"},
		"reads no plain JSON":         {"reads"},
		"retries what it cannot read": {"malformed"},
		"goes on":                     {"paused"},
		"counts no crashes":           {"crashes"},
	} {
		t.Run(mistake, func(t *testing.T) {
			t.Parallel()
			w := conformance.Worker{Only: want, Env: []string{"CONFORMANCE_WORKER=plain", "CONFORMANCE_MISTAKE=" + mistake}}
			if !slices.Contains([]string{"lease", "moves", "replies", "stale", "done"}, want[0]) {
				w.Visibility, w.Patience = 2*time.Second, 10*time.Second // no work of these is long
			}
			if broken := check(t, w); !slices.Equal(broken, want) {
				t.Errorf("the check says that %v are broken, want %v", broken, want)
			}
		})
	}
}

// The page has a section of each rule, and of no other.
func TestThePageHasEachRule(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../WORKER.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, rule := range conformance.Rules {
		want = append(want, rule.Name)
	}
	for _, name := range regexp.MustCompile("(?m)^[0-9]+\\. \\*\\*`([a-z]+)`").FindAllStringSubmatch(string(page), -1) {
		got = append(got, name[1])
	}
	if !slices.Equal(got, want) {
		t.Errorf("the page has the rules %s, the check has %s", strings.Join(got, ", "), strings.Join(want, ", "))
	}
}
