package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
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

// Numbers that a board goes on to show during an outage are not told to a scaler, for as long as
// it lasts.
func TestScaleIsUnknownWhileQueuesAreAway(t *testing.T) {
	t.Parallel()
	outage := azuritetest.NewProxy(t)
	s := startOps(t, map[string]string{
		"AZURE_STORAGE_CONNECTION_STRING": outage.ConnectionString(), "CUTROOM_RETRY_MAX": "0",
	})
	readable := func() bool {
		t.Helper()
		a := s.call(http.MethodGet, "/ops/scale", nil)
		if a.StatusCode != http.StatusOK && (a.StatusCode != http.StatusServiceUnavailable || a.code(t) != "storage_unavailable") {
			t.Errorf("%s %s", a.Status, a.body)
		}
		return a.StatusCode == http.StatusOK
	}
	await := func(want bool) {
		t.Helper()
		azuritetest.Eventually(t, time.Minute, func() error {
			if readable() != want {
				return fmt.Errorf("readable: %t", !want)
			}
			return nil
		})
	}
	await(true)
	outage.Begin(inject.Burst{Service: azstore.Queues, Fault: inject.ServerBusy})
	await(false)
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		if readable() {
			t.Fatal("the scale is told while queues are away")
		}
		time.Sleep(100 * time.Millisecond)
	}
	if metrics := string(s.send(s.request(http.MethodGet, s.admin+"/metrics", nil)).body); !strings.Contains(metrics, "\ncutroom_scale_readable 0\n") {
		t.Error("the metrics say that queues are readable")
	}
	outage.Calm()
	await(true)
}
