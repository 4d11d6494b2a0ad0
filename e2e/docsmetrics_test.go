package e2e

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/e2e/observe"
)

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The dashboard and the rules ask for metrics that docs/metrics.md lists, and the roles'
// own tests hold that page to what they export; and each of them is asked for.
func TestDocsDashboardAndRulesNameMetrics(t *testing.T) {
	exported, asked := map[string]string{}, map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(cutroom_[a-z_]+)` \\| ([a-z]+) \\|").FindAllStringSubmatch(readFile(t, "../docs/metrics.md"), -1) {
		switch m[2] {
		case "histogram":
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				exported[m[1]+suffix] = m[1]
			}
		default:
			exported[m[1]] = m[1]
		}
	}
	recorded := map[string]bool{}
	for _, file := range observe.RuleFiles {
		for _, m := range regexp.MustCompile(`- record: (\S+)`).FindAllStringSubmatch(readFile(t, "../"+file), -1) {
			recorded[m[1]] = true
		}
	}
	names, err := observe.Names("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if exported[name] == "" && !recorded[name] {
			t.Errorf("%s is asked for, and docs/metrics.md has no such metric, nor do the rules record it", name)
		}
		asked[exported[name]] = true
	}
	for _, name := range exported {
		if !asked[name] {
			asked[name] = true
			t.Errorf("%s is in docs/metrics.md, and no panel and no rule shows it", name)
		}
	}
}

var (
	alertRule   = regexp.MustCompile(`(?s)- alert: (\w+)\n.*?runbook: docs/runbooks/(\S+)`)
	alertOfPage = regexp.MustCompile("`(Cutroom\\w+)`")
	alertOfRow  = regexp.MustCompile(`(?m)^\| (Cutroom\w+) \|.*\(runbooks/(\S+)\) \|$`)
)

// Each alert leads to a runbook that names it, each runbook names alerts that exist,
// the table of alerts is complete, and promtool tests that each fires and is silent.
func TestDocsAlertsHaveRunbooksAndTests(t *testing.T) {
	var rules, tests string
	for _, file := range observe.RuleFiles {
		rules += readFile(t, "../"+file)
		tests += readFile(t, "../"+strings.TrimSuffix(file, ".yaml")+"_test.yaml")
	}
	lead := map[string][]string{} // alerts by runbook
	for _, m := range alertRule.FindAllStringSubmatch(rules, -1) {
		alert, runbook := m[1], m[2]
		lead[runbook] = append(lead[runbook], alert)
		if !regexp.MustCompile(fmt.Sprintf(`(?m)alertname: %s\n\s+exp_alerts: \[\{`, alert)).MatchString(tests) {
			t.Errorf("no promtool test says when %s fires", alert)
		}
		if !strings.Contains(tests, "alertname: "+alert+" }") {
			t.Errorf("no promtool test says when %s is silent", alert)
		}
	}
	if n := strings.Count(rules, "- alert:"); n == 0 || n != len(alertRule.FindAllString(rules, -1)) {
		t.Errorf("of %d alerts some have no runbook", n)
	}
	var told []string
	for _, m := range alertOfRow.FindAllStringSubmatch(readFile(t, "../docs/deploy.md"), -1) {
		told = append(told, m[1])
		if !slices.Contains(lead[m[2]], m[1]) {
			t.Errorf("docs/deploy.md leads from %s to %s, and the rule does not", m[1], m[2])
		}
	}
	for runbook, alerts := range lead {
		for _, alert := range alerts {
			if !slices.Contains(told, alert) {
				t.Errorf("docs/deploy.md does not list %s", alert)
			}
		}
		if _, err := os.Stat("../docs/runbooks/" + runbook); err != nil {
			t.Errorf("%v lead to a runbook that is not there: %v", alerts, err)
		}
	}
	walk(t, func(file string) {
		if path.Dir(file) != "docs/runbooks" || path.Base(file) == "README.md" {
			return
		}
		line := strings.SplitN(readFile(t, "../"+file), "\n", 4)[2]
		var named []string
		for _, m := range alertOfPage.FindAllStringSubmatch(line, -1) {
			named = append(named, m[1])
		}
		want := slices.Clone(lead[path.Base(file)])
		slices.Sort(named)
		slices.Sort(want)
		if len(want) == 0 || !slices.Equal(named, want) {
			t.Errorf("%s names the alerts %v in its third line; those that lead to it are %v", file, named, want)
		}
	}, ".md")
}
