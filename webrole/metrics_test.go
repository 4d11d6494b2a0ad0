package main

import (
	"testing"

	"github.com/cutroom/cutroom/shared/testkit/metricstest"
)

// docs/metrics.md lists what this role exports, all of it and nothing else.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	metricstest.Documented(t, start(t, nil).role.measured.registry, "../docs/metrics.md", "Web role")
}
