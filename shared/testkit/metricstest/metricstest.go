// Package metricstest compares what a role exports with docs/metrics.md, in its tests.
package metricstest

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	described = regexp.MustCompile(`fqName: "(cutroom_[a-z_]+)".* variableLabels: \{([^}]*)\}`)
	row       = regexp.MustCompile("^\\| `(cutroom_[a-z_]+)` \\| [a-z]+ \\|([^|]*)\\|")
)

// Documented fails unless the section of docs/metrics.md lists exactly the metrics of the
// project that the registry describes, each with its labels. path leads to the page.
func Documented(t *testing.T, registry *prometheus.Registry, path, section string) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "\n## "+section+"\n")
	if !found {
		t.Fatalf("%s has no section %q", path, section)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	documented := map[string]string{}
	for line := range strings.Lines(text) {
		if m := row.FindStringSubmatch(line); m != nil {
			documented[m[1]] = labels(m[2])
		}
	}
	exported := exportedBy(registry)
	for name, want := range exported {
		got, found := documented[name]
		switch {
		case !found:
			t.Errorf("%s is exported and not in %s, section %q", name, path, section)
		case got != want:
			t.Errorf("%s has the labels %q, and %s says %q", name, want, path, got)
		}
	}
	for name := range documented {
		if _, found := exported[name]; !found {
			t.Errorf("%s is in %s, section %q, and not exported", name, path, section)
		}
	}
}

// exportedBy returns the labels of every metric of the project, by its name.
func exportedBy(registry *prometheus.Registry) map[string]string {
	ch, found := make(chan *prometheus.Desc), map[string]string{}
	go func() { defer close(ch); registry.Describe(ch) }()
	for d := range ch {
		if m := described.FindStringSubmatch(fmt.Sprint(d)); m != nil {
			found[m[1]] = labels(m[2])
		}
	}
	return found
}

// labels puts a list of names, however it is written, into one form.
func labels(text string) string {
	names := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("`, ", r) })
	slices.Sort(names)
	return strings.Join(names, " ")
}
