package main

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/upkeep"
	sharedmetrics "github.com/cutroom/cutroom/shared/metrics"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// metrics are all that this role exports: docs/metrics.md. Labels are few and fixed, because
// an id in a label would make a series per video.
type metrics struct {
	registry *prometheus.Registry
	storage  *sharedmetrics.Storage

	playable, ready                              prometheus.Observer
	failed, attempts                             *prometheus.CounterVec
	wait, took, cpu                              *prometheus.HistogramVec
	mediaSeconds, encodingCPU, resent            prometheus.Counter
	workRequests, workBytes                      *prometheus.CounterVec
	passes, failedPasses, passSeconds, passItems *prometheus.CounterVec
	backlog                                      atomic.Int64 // of the latest pass
}

// newMetrics registers what is told by observers; show adds what is asked for.
func newMetrics(specs []azq.Spec) *metrics {
	m := &metrics{}
	m.registry, m.storage = sharedmetrics.New()
	auto := promauto.With(m.registry)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return auto.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return auto.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	work := []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}

	m.playable = histogram("cutroom_video_playable_seconds", "From the complete upload until the video can be watched, once for each video.",
		[]float64{1, 2, 3, 5, 7.5, 10, 15, 20, 30, 60, 300, 1800}).WithLabelValues()
	m.ready = histogram("cutroom_video_ready_seconds", "From the complete upload until the video is ready, once for each video.",
		[]float64{5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600}).WithLabelValues()
	m.failed = counter("cutroom_videos_failed_total", "Videos that failed: because of the file, or because processing was given up.", "cause")
	m.attempts = counter("cutroom_attempts_total", "Attempts of steps by how they ended.", "step", "outcome")
	m.wait = histogram("cutroom_queue_wait_seconds", "From the request for work to its first delivery.",
		[]float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}, "queue", "lane")
	m.took = histogram("cutroom_step_seconds", "Time of an attempt from claim to end.", work, "step")
	m.cpu = histogram("cutroom_step_cpu_seconds", "Processor time of ffmpeg and ffprobe in an attempt.", work, "step")
	m.mediaSeconds = counter("cutroom_encode_media_seconds_total", "Seconds of video in chunks that were encoded and committed.").WithLabelValues()
	m.encodingCPU = counter("cutroom_encode_cpu_seconds_total", "Processor time that encoding them took.").WithLabelValues()
	m.workRequests = counter("cutroom_work_requests_total", "Requests to storage by attempts of steps.", "service", "operation")
	m.workBytes = counter("cutroom_work_bytes_total", "Bytes between steps and storage.", "direction")
	m.passes = counter("cutroom_upkeep_passes_total", "Passes of a duty.", "duty")
	m.failedPasses = counter("cutroom_upkeep_failed_passes_total", "Passes that ended with an error.", "duty")
	m.passSeconds = counter("cutroom_upkeep_seconds_total", "Time that the passes took.", "duty")
	m.passItems = counter("cutroom_upkeep_items_total", "Videos that the passes looked at.", "duty")
	m.resent = counter("cutroom_upkeep_resent_total", "Messages that were lost and were sent again.").WithLabelValues()
	m.begin(specs)
	return m
}

// begin makes the series of known labels, so that the first event raises a counter from 0
// and a rate sees it.
func (m *metrics) begin(specs []azq.Spec) {
	for _, spec := range specs {
		m.wait.WithLabelValues(spec.Name, "0")
	}
	for _, s := range workflow.Declaration.Steps {
		m.took.WithLabelValues(s.Name)
		m.cpu.WithLabelValues(s.Name)
		for _, o := range []engine.Outcome{engine.OutcomeDone, engine.OutcomeFailed, engine.OutcomeRetry, engine.OutcomeReleased, engine.OutcomeLost} {
			m.attempts.WithLabelValues(s.Name, string(o))
		}
	}
	for _, cause := range []string{causeFile, causeProcessing} {
		m.failed.WithLabelValues(cause)
	}
	for _, direction := range []string{"sent", "received"} {
		m.workBytes.WithLabelValues(direction)
	}
	for _, kind := range azstore.RequestKinds() {
		m.workRequests.WithLabelValues(sharedmetrics.Split(kind))
	}
}

// show adds what the consumer counts itself, read when metrics are collected, what is of the
// leader alone, and the series of the duties.
func (m *metrics) show(work *azq.Client, leading func() bool, duties []upkeep.Duty) {
	m.registry.MustRegister(queueMetrics{work})
	ofLeader := func(name, help string, value func() int64) {
		promauto.With(m.registry).NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			if !leading() {
				return 0
			}
			return float64(value())
		})
	}
	ofLeader("cutroom_upkeep_leader", "1 on the worker that is elected for upkeep.", func() int64 { return 1 })
	ofLeader("cutroom_outbox_backlog", "Videos whose promised messages were not sent in time, in the latest pass; 0 on workers that do not lead.", m.backlog.Load)
	for _, d := range duties {
		for _, counter := range []*prometheus.CounterVec{m.passes, m.failedPasses, m.passSeconds, m.passItems} {
			counter.WithLabelValues(d.Name)
		}
	}
}

func (m *metrics) passed(duty string, items int, failed bool, took time.Duration) {
	m.passes.WithLabelValues(duty).Inc()
	if failed {
		m.failedPasses.WithLabelValues(duty).Inc()
	}
	m.passSeconds.WithLabelValues(duty).Add(took.Seconds())
	m.passItems.WithLabelValues(duty).Add(float64(items))
}

func (m *metrics) reconciled(unsent, resent int) {
	m.backlog.Store(int64(unsent))
	m.resent.Add(float64(resent))
}

// Why a video failed.
const (
	causeFile       = "file"       // the uploader's: no objective counts it
	causeProcessing = "processing" // ours: its item is poison
)

// changed is told of every change of META that this worker committed.
func (m *metrics) changed(before, after video.Video) {
	since := 0.0 // of a video that can be watched while it uploads
	if !after.UploadedAt.IsZero() {
		since = after.UpdatedAt.Sub(after.UploadedAt).Seconds()
	}
	if !before.Playable && after.Playable {
		m.playable.Observe(since)
	}
	if before.ReadyAt.IsZero() && !after.ReadyAt.IsZero() { // and not when it is processed again
		m.ready.Observe(since)
	}
	if before.State != engine.Failed && after.State == engine.Failed && after.Error != nil {
		cause := causeFile
		if after.Error.Code == engine.ProcessingFailed {
			cause = causeProcessing
		}
		m.failed.WithLabelValues(cause).Inc()
	}
}

// attempt is told of every attempt. The end of a lost one is not known.
func (m *metrics) attempt(key engine.Key, plan video.Plan, a engine.Attempt) {
	m.attempts.WithLabelValues(key.Step, string(a.Outcome)).Inc()
	if a.Outcome != engine.OutcomeLost {
		m.took.WithLabelValues(key.Step).Observe(max(0, a.Ended.Sub(a.Started)).Seconds())
	}
	if a.Usage == nil {
		return
	}
	m.cpu.WithLabelValues(key.Step).Observe(a.Usage.CPU)
	for kind, n := range a.Usage.Requests {
		m.workRequests.WithLabelValues(sharedmetrics.Split(kind)).Add(float64(n))
	}
	m.workBytes.WithLabelValues("sent").Add(float64(a.Usage.Sent))
	m.workBytes.WithLabelValues("received").Add(float64(a.Usage.Received))
	if a.Outcome == engine.OutcomeDone && workflow.Declaration.StepOf(key).Makes == workflow.Pictures && key.Index < len(plan.Chunks) {
		chunk := plan.Chunks[key.Index]
		m.mediaSeconds.Add(plan.FPS.Seconds(chunk.To - chunk.From))
		m.encodingCPU.Add(a.Usage.CPU)
	}
}

// delivered measures the wait of an item that is delivered for the first time. Hosts'
// clocks may differ, so it may seem negative.
func (m *metrics) delivered(job *azq.RawJob, asked time.Time) {
	if job.DequeueCount != 1 {
		return
	}
	lane, laned := strings.CutPrefix(job.Queue, job.Base+"-")
	if !laned {
		lane = "0"
	}
	m.wait.WithLabelValues(job.Base, lane).Observe(max(time.Duration(0), job.Received.Sub(asked)).Seconds())
}

// queueMetrics reads the consumer's counters when metrics are collected.
type queueMetrics struct{ work *azq.Client }

var (
	queueLength = prometheus.NewDesc("cutroom_queue_length", "Messages in the queue, hidden ones included (approximate): the scaling signal.", []string{"queue"}, nil)
	visibility  = prometheus.NewDesc("cutroom_queue_visibility_seconds", "Visibility timeout in force.", []string{"queue"}, nil)
	messages    = prometheus.NewDesc("cutroom_messages_total", "Messages by what became of them, all lanes of a queue together.", []string{"queue", "outcome"}, nil)
	poolSlots   = prometheus.NewDesc("cutroom_pool_slots", "Slots of a pool.", []string{"pool"}, nil)
	breakers    = prometheus.NewDesc("cutroom_breaker_state", "Circuit breaker of a dependency: 0 closed, 1 half-open, 2 open (the worker receives nothing).", []string{"dependency"}, nil)
	troubles    = prometheus.NewDesc("cutroom_dependency_failures_total", "Troubles with a dependency, which cost items nothing.", []string{"dependency"}, nil)
	poolBusy    = prometheus.NewDesc("cutroom_pool_busy", "Slots of a pool that are taken.", []string{"pool"}, nil)
)

// Describe implements prometheus.Collector.
func (queueMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{queueLength, visibility, messages, poolSlots, poolBusy, breakers, troubles} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m queueMetrics) Collect(ch chan<- prometheus.Metric) {
	stats := m.work.Stats()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, p := range stats.Pools {
		gauge(poolSlots, float64(p.Slots), p.Name)
		gauge(poolBusy, float64(p.Busy), p.Name)
	}
	states := map[string]float64{azq.BreakerClosed: 0, azq.BreakerHalfOpen: 1, azq.BreakerOpen: 2}
	for _, b := range stats.Breakers {
		gauge(breakers, states[b.State], b.Dependency)
		ch <- prometheus.MustNewConstMetric(troubles, prometheus.CounterValue, float64(b.Failures), b.Dependency)
	}
	counts := map[[2]string]int64{} // by queue and outcome
	for _, q := range stats.Queues {
		gauge(queueLength, float64(q.Length), q.Queue)
		gauge(visibility, q.Visibility.Seconds(), q.Queue)
		for outcome, n := range outcomes(q) {
			counts[[2]string{q.Base, outcome}] += n
		}
	}
	for at, n := range counts {
		ch <- prometheus.MustNewConstMetric(messages, prometheus.CounterValue, float64(n), at[0], at[1])
	}
}

// outcomes are what a consumer counts of a queue, by the label that metrics give it.
func outcomes(q azq.QueueStats) map[string]int64 {
	return map[string]int64{
		"received": q.Received, "completed": q.Completed, "unwanted": q.Unwanted, "failed": q.Failed, "poisoned": q.Poisoned,
		"released": q.Released, "troubled": q.Troubled, "troubled_often": q.TroubledOften, "snoozed": q.Snoozed, "put_back": q.PutBack, "renewed": q.Renewals,
		"stale_delete": q.StaleDeletes, "stale_renewal": q.StaleRenewals, "stale_release": q.StaleReleases, "receipt_lost": q.ReceiptsLost,
		"stalled": q.Stalled, "empty_poll": q.EmptyPolls, "superseded": q.Superseded, "lease_ending": q.LeasesEnding,
		"panicked": q.Panics, "hook_hung": q.HooksHung, "crash_loop": q.CrashLoops, "receive_error": q.ReceiveErrors, "renew_error": q.RenewErrors, "settle_error": q.SettleErrors,
	}
}
