package main

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/runner"
	"github.com/cutroom/cutroom/shared/engine/upkeep"
	"github.com/cutroom/cutroom/shared/testkit/metricstest"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/workerrole/internal/step"
)

// docs/metrics.md lists what this role exports, all of it and nothing else.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	m := newMetrics(workflow.Specs)
	m.show(nil, nil, nil)
	metricstest.Documented(t, m.registry, "../docs/metrics.md", "Worker role")
}

// A video is measured once: not when it changes again, not when it is processed again,
// and one that a file failed counts apart from one that we failed.
func TestAVideoIsMeasuredOnce(t *testing.T) {
	t.Parallel()
	m := newMetrics(workflow.Specs)
	uploaded := time.Now()
	at := func(seconds int, edit func(*video.Video)) video.Video {
		v := video.Video{Meta: engine.Meta{
			State: engine.Processing, UploadedAt: uploaded,
			UpdatedAt: uploaded.Add(time.Duration(seconds) * time.Second),
		}}
		edit(&v)
		return v
	}
	made := at(1, func(*video.Video) {})
	playable := at(4, func(v *video.Video) { v.Playable = true })
	renamed := at(5, func(v *video.Video) { v.Playable, v.Title = true, "other" })
	ready := at(9, func(v *video.Video) { v.Playable, v.State, v.ReadyAt = true, engine.Ready, v.UpdatedAt })
	again := at(900, func(v *video.Video) { v.Playable, v.State, v.ReadyAt = true, engine.Ready, v.UpdatedAt })
	broken := at(2, func(v *video.Video) { v.State, v.Error = engine.Failed, &engine.Failure{Code: video.CorruptMedia} })
	given := at(3, func(v *video.Video) { v.State, v.Error = engine.Failed, &engine.Failure{Code: engine.ProcessingFailed} })
	for _, change := range [][2]video.Video{{
		made, playable,
	}, {
		playable, renamed,
	}, {
		renamed, ready,
	}, {
		ready, again,
	}, {
		made, broken,
	}, {
		broken, broken,
	}, {
		made, given,
	}} {
		m.changed(change[0], change[1])
	}
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, series := range f.GetMetric() {
			switch {
			case f.GetName() == "cutroom_videos_failed_total":
				got["failed: "+series.GetLabel()[0].GetValue()] = series.GetCounter().GetValue()
			case f.GetName() == "cutroom_video_playable_seconds", f.GetName() == "cutroom_video_ready_seconds":
				got[f.GetName()] = series.GetHistogram().GetSampleSum()
				got[f.GetName()+" videos"] = float64(series.GetHistogram().GetSampleCount())
			}
		}
	}
	want := map[string]float64{
		"cutroom_video_playable_seconds": 4, "cutroom_video_playable_seconds videos": 1,
		"cutroom_video_ready_seconds": 9, "cutroom_video_ready_seconds videos": 1, "failed: file": 1, "failed: processing": 1,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Only what was committed is told, and of an attempt each thing once.
func TestAttemptsAreMeasured(t *testing.T) {
	t.Parallel()
	m := newMetrics(workflow.Specs)
	key := engine.Key{Step: workflow.StepEncode, Index: 1}
	plan := video.Plan{FPS: video.Rational{Num: 25, Den: 1}, Chunks: []video.Chunk{{From: 0, To: 50}, {From: 50, To: 150}}}
	begun := time.Now()
	for _, outcome := range []engine.Outcome{engine.OutcomeLost, engine.OutcomeRetry, engine.OutcomeDone} {
		a := engine.Attempt{Started: begun, Ended: begun.Add(2 * time.Second), Outcome: outcome, Usage: &engine.Usage{CPU: 8}}
		if outcome == engine.OutcomeLost {
			a.Usage = nil
		}
		m.attempt(key, plan, a)
	}
	if media, cpu := value(t, m, "cutroom_encode_media_seconds_total"), value(t, m, "cutroom_encode_cpu_seconds_total"); media != 4 || cpu != 8 {
		t.Errorf("%v s of video in %v s of processor, want 4 in 8: one attempt counted", media, cpu)
	}
	if sum := value(t, m, "cutroom_attempts_total"); sum != 3 {
		t.Errorf("%v attempts, want 3", sum)
	}
	if sum := value(t, m, "cutroom_step_seconds"); sum != 4 {
		t.Errorf("%v s of attempts, want 4: how long the lost one took is unknown", sum)
	}
}

// value adds up all series of a metric.
func value(t *testing.T, m *metrics, name string) (sum float64) {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, series := range f.GetMetric() {
			sum += series.GetCounter().GetValue() + series.GetGauge().GetValue() + series.GetHistogram().GetSampleSum()
		}
	}
	return sum
}

// Every duty has its counters from the start, so that a rate over them is right.
func TestUpkeepMetrics(t *testing.T) {
	t.Parallel()
	work := azq.Open(azuritetest.Account(t), azq.Options{Pools: map[string]int{"default": 0}})
	if err := work.Check(); err != nil {
		t.Fatal(err)
	}
	m := newMetrics(nil)
	leads := false
	m.show(work, func() bool { return leads }, []upkeep.Duty{{Name: "reconcile"}, {Name: "janitor"}})
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, f := range families {
		found[f.GetName()] = len(f.GetMetric())
	}
	for name, want := range map[string]int{"cutroom_upkeep_leader": 1, "cutroom_upkeep_passes_total": 2, "cutroom_upkeep_items_total": 2} {
		if found[name] != want {
			t.Errorf("%s has %d series, want %d", name, found[name], want)
		}
	}
	for range 2 {
		leads = true
		m.passed("reconcile", 2, true, time.Second)
		m.reconciled(1, 3)
		m.passed("janitor", 4, false, time.Second)
		if n := value(t, m, "cutroom_outbox_backlog") + value(t, m, "cutroom_upkeep_leader"); n != 2 {
			t.Errorf("backlog and leader are %v, want 1 and 1", n)
		}
		leads = false
	}
	for name, want := range map[string]float64{
		"cutroom_outbox_backlog": 0, "cutroom_upkeep_leader": 0, "cutroom_upkeep_resent_total": 6, "cutroom_upkeep_items_total": 12,
		"cutroom_upkeep_passes_total": 4, "cutroom_upkeep_failed_passes_total": 2, "cutroom_upkeep_seconds_total": 4,
	} {
		if got := value(t, m, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// A step that is declared and not listed is an error at start that says where to list it.
func TestAStepThatIsNotListedIsNamed(t *testing.T) {
	t.Parallel()
	account := azuritetest.Account(t)
	queues := azq.Open(account, azq.Options{Queues: workflow.Specs})
	r := &role{
		cfg: config{Pools: workflow.Pools()}, queues: queues, measured: newMetrics(workflow.Specs), scratch: &runner.Scratch{},
		Needs: step.Needs{Videos: videostore.New(account, queues)},
	}
	steps := step.All(r.Needs, features(account, r.Needs, r.cfg))
	if _, err := r.consumer(steps); err != nil {
		t.Fatalf("with all steps: %v", err)
	}
	delete(steps, workflow.StepProbe)
	_, err := r.consumer(steps)
	if err == nil || !strings.Contains(err.Error(), "listed in step.All") || !strings.Contains(err.Error(), `"`+workflow.StepProbe+`"`) {
		t.Errorf("without the first step: %v", err)
	}
}

// A message counts once, for its queue and its lane, from when its work was asked for.
func TestWaitsAreMeasuredByQueueAndLane(t *testing.T) {
	t.Parallel()
	m := newMetrics(workflow.Specs)
	asked := time.Now()
	for lane, seconds := range []int{1, 20} {
		for deliveries := range int64(2) {
			job := &azq.RawJob{Queue: azq.LaneName(workflow.EncodeNormal, lane), Base: workflow.EncodeNormal}
			job.DequeueCount, job.Received = 1+deliveries, asked.Add(time.Duration(seconds)*time.Second)
			m.delivered(job, asked)
		}
	}
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	waits := map[string]float64{}
	for _, f := range families {
		for _, series := range f.GetMetric() {
			if h := series.GetHistogram(); f.GetName() == "cutroom_queue_wait_seconds" && h.GetSampleCount() > 0 {
				waits[series.GetLabel()[0].GetValue()+" "+series.GetLabel()[1].GetValue()] = h.GetSampleSum()
			}
		}
	}
	// Labels are in the order of the alphabet: the lane is before the queue.
	if want := map[string]float64{"0 " + workflow.EncodeNormal: 1, "1 " + workflow.EncodeNormal: 20}; !maps.Equal(waits, want) {
		t.Errorf("waits are %v, want %v", waits, want)
	}
}
