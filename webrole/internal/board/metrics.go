package board

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// register has the board measured.
func (b *Board) register(registry prometheus.Registerer) {
	in := promauto.With(registry)
	in.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "cutroom_board_watchers", Help: "Streams of /ops/events that are open.",
	}, func() float64 { return float64(b.watchers.Load()) })
	in.NewCounterFunc(prometheus.CounterOpts{
		Name: "cutroom_board_storage_requests_total", Help: "Storage requests of the one reader for all who watch the board.",
	}, func() float64 { return float64(b.requests.Load()) })
	registry.MustRegister(scaleMetrics{b})
}

// scaleMetrics asks for the scaling signal when metrics are collected. Storage that does
// not answer leaves the others as they are.
type scaleMetrics struct{ board *Board }

const scaleTimeout = 5 * time.Second

var (
	scaleWanted  = prometheus.NewDesc("cutroom_scale_workers_wanted", "Worker roles that the queues want (GET /api/v1/ops/scale).", nil, nil)
	scaleWorkers = prometheus.NewDesc("cutroom_scale_workers", "Worker roles that live and are not draining.", nil, nil)
	scaleRead    = prometheus.NewDesc("cutroom_scale_readable", "1 if the queues could be read; without them the others are missing.", nil, nil)
	queueVisible = prometheus.NewDesc("cutroom_queue_visible", "Messages that can be received now, all lanes together; an estimate above 31.", []string{"queue"}, nil)
	queueHidden  = prometheus.NewDesc("cutroom_queue_hidden", "Messages in progress or put back for later, all lanes together.", []string{"queue"}, nil)
	queueOldest  = prometheus.NewDesc("cutroom_queue_oldest_seconds", "Age of the oldest visible message, 0 without one.", []string{"queue"}, nil)
	queueWork    = prometheus.NewDesc("cutroom_queue_work_seconds", "How long one slot would be busy with the queue.", []string{"queue"}, nil)
)

// Describe implements prometheus.Collector.
func (scaleMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{scaleWanted, scaleWorkers, scaleRead, queueVisible, queueHidden, queueOldest, queueWork} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m scaleMetrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), scaleTimeout)
	defer cancel()
	d, err := m.board.Scale(ctx)
	if err != nil {
		slog.Warn("metrics lack the queues", "error", err)
		gauge(scaleRead, 0)
		return
	}
	gauge(scaleRead, 1)
	gauge(scaleWanted, float64(d.Wanted))
	gauge(scaleWorkers, float64(d.Workers))
	for _, q := range d.Queues {
		gauge(queueVisible, float64(q.Visible), q.Name)
		gauge(queueHidden, float64(q.Hidden), q.Name)
		gauge(queueOldest, q.OldestSeconds, q.Name)
		gauge(queueWork, q.WorkSeconds, q.Name)
	}
}
