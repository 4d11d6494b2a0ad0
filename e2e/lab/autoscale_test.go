package lab

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// Q18: a burst, and the number of worker processes follows it by itself: one, more, one.
// Nothing that a worker gave back when it was told to go counts as a failed attempt.
func TestWorkersFollowTheQueues(t *testing.T) {
	t.Parallel()
	o := stacktest.Complete(t, stack.Options{Workers: 1, MaxWorkers: 3, Env: []string{
		"WORKERROLE_POOLS=light=4,heavy=1", "WEBROLE_SCALE_BEGIN=1s", "WEBROLE_SCALE_COOL_DOWN=4s",
	}})
	scaled, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	stacktest.StopAfter(t, scaled)
	user, err := journey.New(scaled.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(user.Close)
	s := &drill{Stack: scaled, t: t, user: user, ctx: t.Context()}

	const videos = 8
	s.do("burst", `{"videos":8}`)
	sizes := []int{1} // of the fleet, when it changed
	watch := func() {
		running := 0
		for _, name := range s.Workers() {
			if s.Pid(name) != 0 {
				running++
			}
		}
		if running != sizes[len(sizes)-1] {
			sizes = append(sizes, running)
		}
	}
	stacktest.Eventually(t, "there are more workers", func() bool { watch(); return slices.Max(sizes) > 1 })
	var ids []string
	if !azuritetest.Poll(4*time.Minute, func() bool {
		watch()
		burst := s.lab().Burst
		if burst == nil || burst.Running || len(burst.Ids) != videos || !s.allReady(burst.Ids) {
			return false
		}
		ids = burst.Ids
		return true
	}) {
		t.Fatalf("not all videos are ready; workers: %v; %+v", sizes, s.lab().Burst)
	}
	stacktest.Eventually(t, "there is one worker again", func() bool { watch(); return sizes[len(sizes)-1] == 1 })
	t.Logf("workers: %v", sizes)
	if most := slices.Max(sizes); most > o.MaxWorkers || slices.Min(sizes) < 1 {
		t.Errorf("workers: %v", sizes)
	}
	for _, id := range ids {
		s.noFailures(id)
	}
	for _, name := range s.Workers()[1:] { // each was told to drain, and ended by itself
		if log := s.Logs(name); !strings.Contains(log, "draining") || s.Pid(name) != 0 {
			t.Errorf("%s did not drain:\n%s", name, log)
		}
	}
}

func (s *drill) allReady(ids []string) bool {
	s.t.Helper()
	for _, id := range ids {
		res, err := s.user.API().GetVideoWithResponse(s.ctx, id)
		if err != nil || res.JSON200 == nil {
			s.t.Fatalf("video %s: %v", id, err)
		}
		if res.JSON200.State == client.Failed {
			s.t.Fatalf("video %s failed: %+v", id, res.JSON200.Error)
		}
		if res.JSON200.State != client.Ready {
			return false
		}
	}
	return true
}

// noFailures: every attempt of the video was done or given back. A drain does not wait for a
// handler that is slow to stop: another worker may begin its step before that has said so.
func (s *drill) noFailures(id string) {
	s.t.Helper()
	res, err := s.user.API().GetJourneyWithResponse(s.ctx, id)
	if err != nil || res.JSON200 == nil {
		s.t.Fatalf("journey of %s: %v", id, err)
	}
	for _, item := range res.JSON200.Items {
		for _, a := range item.Attempts {
			switch {
			case a.Outcome == client.AttemptDone, a.Outcome == client.AttemptReleased, a.Outcome == client.AttemptRunning:
			case a.Outcome == client.AttemptLost && a.Worker != nil && s.drained(*a.Worker):
			default:
				s.t.Errorf("%s %d of %s: attempt %d was %s: %v", item.Step, item.Index, id, a.Number, a.Outcome, a.Error)
			}
		}
	}
}

// drained reports whether a worker of that name was told to go.
func (s *drill) drained(worker string) bool {
	return slices.ContainsFunc(s.Workers(), func(process string) bool {
		log := s.Logs(process)
		return strings.Contains(log, "worker="+worker) && strings.Contains(log, "draining: messages are given back")
	})
}
