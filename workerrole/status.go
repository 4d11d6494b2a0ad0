package main

import (
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/cutroom/cutroom/shared/workers"
	"github.com/cutroom/cutroom/shared/workqueue/consumer"
	"github.com/cutroom/cutroom/workerrole/internal/upkeep"
)

// status shows what the worker is doing, in the register and as metrics.
type status struct {
	cfg     config
	host    string
	started time.Time
	work    *consumer.Consumer
	leader  *upkeep.Leader
}

func newStatus(cfg config, work *consumer.Consumer, leader *upkeep.Leader) *status {
	host, _ := os.Hostname()
	return &status{cfg: cfg, host: host, started: time.Now().UTC(), work: work, leader: leader}
}

// worker is the row of the register.
func (s *status) worker() workers.Worker {
	stats := s.work.Stats()
	w := workers.Worker{
		Name: s.cfg.Name, Host: s.host, PID: os.Getpid(), StartedAt: s.started,
		Draining: stats.Draining, Leader: s.leader.Leading(), Pools: s.cfg.Pools,
		Queues: map[string]workers.Count{},
	}
	for _, q := range stats.Queues {
		w.Done += q.Completed
		w.Failed += q.Failed
		w.Troubled += q.Troubled
		w.Stale += q.StaleDeletes + q.StaleRenewals
		count := workers.Count{Done: q.Completed, Failed: q.Failed, Poisoned: q.Poisoned, Renewed: q.Renewals, Released: q.Released + q.Troubled, Seconds: q.Worked.Seconds()}
		if count != (workers.Count{}) {
			w.Queues[q.Queue] = count
		}
	}
	for _, b := range stats.Breakers {
		if b.State != consumer.BreakerClosed {
			w.Breakers = append(w.Breakers, workers.Breaker{Dependency: b.Dependency, State: b.State, Since: b.Since, Reason: b.Reason})
		}
	}
	if err := s.work.Ready(); err != nil {
		w.Trouble = err.Error()
	}
	for _, r := range stats.Running {
		w.Busy = append(w.Busy, workers.Task{
			Queue: r.Queue, Step: r.Step, Video: r.Subject, Since: r.Since, Deadline: r.Deadline,
			MessageID: r.MessageID, Item: r.Item, Dequeues: r.Dequeues, Renewals: r.Renewals, Inserted: r.Inserted,
			Visibility: r.Visibility.Seconds(),
		})
	}
	return w
}

// registry holds the metrics of the admin listener.
func (s *status) registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), queueMetrics{s.work}, upkeepMetrics{s.leader})
	return r
}

// queueMetrics reads the consumer's counters when metrics are collected.
type queueMetrics struct{ work *consumer.Consumer }

var (
	queueLength = prometheus.NewDesc("cutroom_queue_length", "Messages in the queue, hidden ones included (approximate): the scaling signal.", []string{"queue"}, nil)
	visibility  = prometheus.NewDesc("cutroom_queue_visibility_seconds", "Visibility timeout in force.", []string{"queue"}, nil)
	messages    = prometheus.NewDesc("cutroom_messages_total", "Messages by what became of them.", []string{"queue", "outcome"}, nil)
	poolSlots   = prometheus.NewDesc("cutroom_pool_slots", "Slots of a pool.", []string{"pool"}, nil)
	breakers    = prometheus.NewDesc("cutroom_breaker_state", "Circuit breaker of a dependency: 0 closed, 1 half-open, 2 open (the worker receives nothing).", []string{"dependency"}, nil)
	troubles    = prometheus.NewDesc("cutroom_troubles_total", "Troubles with a dependency, which cost items nothing.", []string{"dependency"}, nil)
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
	states := map[string]float64{consumer.BreakerClosed: 0, consumer.BreakerHalfOpen: 1, consumer.BreakerOpen: 2}
	for _, b := range stats.Breakers {
		gauge(breakers, states[b.State], b.Dependency)
		ch <- prometheus.MustNewConstMetric(troubles, prometheus.CounterValue, float64(b.Troubles), b.Dependency)
	}
	for _, q := range stats.Queues {
		gauge(queueLength, float64(q.Length), q.Queue)
		gauge(visibility, q.Visibility.Seconds(), q.Queue)
		for outcome, n := range map[string]int64{
			"received": q.Received, "completed": q.Completed, "unwanted": q.Unwanted, "failed": q.Failed, "poisoned": q.Poisoned,
			"released": q.Released, "troubled": q.Troubled, "troubled_often": q.TroubledOften, "snoozed": q.Snoozed, "put_back": q.PutBack, "renewed": q.Renewals,
			"stale_delete": q.StaleDeletes, "stale_renewal": q.StaleRenewals, "stale_release": q.StaleReleases, "receipt_lost": q.ReceiptsLost,
			"stalled": q.Stalled, "empty_poll": q.EmptyPolls,
		} {
			ch <- prometheus.MustNewConstMetric(messages, prometheus.CounterValue, float64(n), q.Queue, outcome)
		}
	}
}

// upkeepMetrics reads the leader's counters when metrics are collected. They stay when
// the worker is no longer the leader.
type upkeepMetrics struct{ leader *upkeep.Leader }

var (
	leads            = prometheus.NewDesc("cutroom_upkeep_leader", "1 on the worker that is elected for upkeep.", nil, nil)
	upkeepPasses     = prometheus.NewDesc("cutroom_upkeep_passes_total", "Passes of a duty.", []string{"duty"}, nil)
	upkeepFailed     = prometheus.NewDesc("cutroom_upkeep_failed_passes_total", "Passes that ended with an error.", []string{"duty"}, nil)
	upkeepSeconds    = prometheus.NewDesc("cutroom_upkeep_seconds_total", "Time that the passes took.", []string{"duty"}, nil)
	upkeepItems      = prometheus.NewDesc("cutroom_upkeep_items_total", "Videos that the passes looked at.", []string{"duty"}, nil)
	upkeepUnreadable = prometheus.NewDesc("cutroom_upkeep_unreadable_total", "Videos that a pass could not read and left as they are.", []string{"duty"}, nil)
)

// Describe implements prometheus.Collector.
func (upkeepMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{leads, upkeepPasses, upkeepFailed, upkeepSeconds, upkeepItems, upkeepUnreadable} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m upkeepMetrics) Collect(ch chan<- prometheus.Metric) {
	leading := 0.0
	if m.leader.Leading() {
		leading = 1
	}
	ch <- prometheus.MustNewConstMetric(leads, prometheus.GaugeValue, leading)
	for _, s := range m.leader.Stats() {
		for d, v := range map[*prometheus.Desc]float64{
			upkeepPasses: float64(s.Passes), upkeepFailed: float64(s.Failed), upkeepSeconds: s.Time.Seconds(),
			upkeepItems: float64(s.Items), upkeepUnreadable: float64(s.Unreadable),
		} {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, s.Name)
		}
	}
}
