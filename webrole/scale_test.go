package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

// TestScaleIsTold: the route, the metrics and the board say the same about the queues
// (Q4, Q18).
func TestScaleIsTold(t *testing.T) {
	t.Parallel()
	s := startOps(t, map[string]string{"WEBROLE_SCALE_FLOOR": "2", "WEBROLE_SCALE_CEILING": "7"})
	v := s.create(map[string]any{})
	s.call(http.MethodPut, "/videos/"+v.Id+"/content", movie(100)).want(t, http.StatusAccepted, "")
	got := decode[api.Scale](t, s.call(http.MethodGet, "/ops/scale", nil), http.StatusOK)
	if got.Wanted != 2 || got.Floor != 2 || got.Ceiling != 7 || got.Workers != 0 || got.BeginSeconds != 10 || got.Why == "" || len(got.Queues) != len(workflow.Specs) {
		t.Errorf("%+v", got)
	}
	for _, q := range got.Queues {
		waits := q.Name == workflow.Probe || q.Name == workflow.Index
		if q.Hidden != 0 || waits != (q.Visible == 1) || waits != (q.WorkSeconds > 0) || waits != (q.OldestSeconds > 0) {
			t.Errorf("%+v", q)
		}
	}
	metrics := string(s.send(s.request(http.MethodGet, s.admin+"/metrics", nil)).body)
	for _, line := range []string{"cutroom_scale_readable 1", "cutroom_scale_workers_wanted 2", "cutroom_scale_workers 0", `cutroom_queue_visible{queue="probe"} 1`, `cutroom_queue_hidden{queue="probe"} 0`} {
		if !strings.Contains(metrics, "\n"+line+"\n") {
			t.Errorf("the metrics lack %s", line)
		}
	}
	s.look(s.public).sees("how many are wanted", func(l *looker) bool { return l.scale.Wanted == 2 && l.scale.Ceiling == 7 })
}

// TestScaleToZeroIsRefused: the reconciler needs a worker (decision 0033).
func TestScaleToZeroIsRefused(t *testing.T) {
	t.Parallel()
	for _, env := range []map[string]string{{"WEBROLE_SCALE_FLOOR": "0"}, {
		"WEBROLE_SCALE_FLOOR": "4", "WEBROLE_SCALE_CEILING": "3",
	}} {
		if _, err := loadConfig(func(name string) string { return env[name] }); err == nil || !strings.Contains(err.Error(), "WEBROLE_SCALE_") {
			t.Errorf("%v: %v", env, err)
		}
	}
}
