// Package observe reads what is made of metrics: the queries of the dashboard, of the rules
// and of the alerts. Its tests ask a Prometheus that scrapes a stack, for `make test-deploy`.
package observe

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Query is an expression of PromQL and where it stands.
type Query struct{ Where, Expr string }

// Dashboard returns the queries of the dashboard's panels. root is the repository.
func Dashboard(root string) (queries []Query, _ error) {
	text, err := os.ReadFile(filepath.Join(root, "deploy", "grafana", "dashboards", "overview.json"))
	if err != nil {
		return nil, fmt.Errorf("read the dashboard: %w", err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		return nil, fmt.Errorf("read the dashboard: %w", err)
	}
	for _, p := range board.Panels {
		for _, t := range p.Targets {
			queries = append(queries, Query{"panel " + p.Title, t.Expr})
		}
	}
	return queries, nil
}

// RuleFiles are the files with rules, relative to the repository.
var RuleFiles = []string{"deploy/prometheus/objectives.yaml", "deploy/prometheus/alerts.yaml"}

var (
	comment = regexp.MustCompile(`(?m)^\s*#.*$`)
	name    = regexp.MustCompile(`\bcutroom[_:][a-zA-Z0-9_:]+`)
	// selector is a metric with its labels, in a query.
	selector = regexp.MustCompile(`\bcutroom[_:][a-zA-Z0-9_:]+(\{[^}]*\})?`)
)

// Names returns the metrics that the dashboard and the rules name, and what the rules
// record, in order.
func Names(root string) ([]string, error) {
	queries, err := Dashboard(root)
	if err != nil {
		return nil, err
	}
	for _, file := range RuleFiles {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil {
			return nil, fmt.Errorf("read the rules: %w", err)
		}
		// Names of groups have a hyphen after the product's name, those of alerts are
		// written together: neither is taken for a metric.
		queries = append(queries, Query{file, comment.ReplaceAllString(string(text), "")})
	}
	found := map[string]bool{}
	for _, q := range queries {
		for _, n := range name.FindAllString(q.Expr, -1) {
			found[n] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// Missing returns those of the names that no page of metrics has, recorded ones left out.
func Missing(names []string, pages ...string) (missing []string) {
	have := map[string]bool{}
	for line := range strings.Lines(strings.Join(pages, "\n")) {
		if end := strings.IndexAny(line, "{ "); end > 0 && line[0] != '#' {
			have[line[:end]] = true
		}
	}
	for _, n := range names {
		if !have[n] && !strings.Contains(n, ":") {
			missing = append(missing, n)
		}
	}
	return missing
}
