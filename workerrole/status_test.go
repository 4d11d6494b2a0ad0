package main

import (
	"context"
	"testing"

	"github.com/cutroom/cutroom/shared/azuritetest"
	"github.com/cutroom/cutroom/shared/workqueue"
	"github.com/cutroom/cutroom/shared/workqueue/consumer"
	"github.com/cutroom/cutroom/workerrole/internal/upkeep"
)

// Every duty has its counters from the start, so that a rate over them is right.
func TestUpkeepMetrics(t *testing.T) {
	t.Parallel()
	leader := &upkeep.Leader{}
	for _, name := range []string{"reconcile", "janitor"} {
		leader.Duties = append(leader.Duties, upkeep.Duty{Name: name, Do: func(context.Context) (upkeep.Pass, error) { return upkeep.Pass{}, nil }})
	}
	work, err := consumer.New(workqueue.OpenAll(azuritetest.Account(t), nil), consumer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	families, err := newStatus(config{}, work, leader).registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, f := range families {
		found[f.GetName()] = len(f.GetMetric())
	}
	for name, want := range map[string]int{"cutroom_upkeep_leader": 1, "cutroom_upkeep_passes_total": 2, "cutroom_upkeep_unreadable_total": 2} {
		if found[name] != want {
			t.Errorf("%s has %d series, want %d", name, found[name], want)
		}
	}
}
