package main

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	sharedmetrics "github.com/cutroom/cutroom/shared/metrics"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/webrole/internal/board"
)

// metrics are for the admin listener: all that this role exports is made and registered
// here. Labels are few and fixed: an id in a label would make a series per video.
// docs/metrics.md lists them.
type metrics struct {
	registry *prometheus.Registry
	storage  *sharedmetrics.Storage
	requests *prometheus.HistogramVec
	uploads  prometheus.Counter
	bytes    prometheus.Counter
	refused  prometheus.Counter // connections
}

// newMetrics registers what is told while the role runs; show adds what is asked for.
func newMetrics() *metrics {
	m := &metrics{}
	m.registry, m.storage = sharedmetrics.New()
	in := promauto.With(m.registry)
	m.uploads = in.NewCounter(prometheus.CounterOpts{Name: "cutroom_uploads_total", Help: "Uploads that are complete."})
	m.bytes = in.NewCounter(prometheus.CounterOpts{Name: "cutroom_upload_bytes_total", Help: "Bytes of complete uploads, whichever way they came."})
	m.refused = in.NewCounter(prometheus.CounterOpts{
		Name: "cutroom_http_connections_refused_total", Help: "Connections closed at once because their client had too many (WEBROLE_CONNECTIONS).",
	})
	m.requests = in.NewHistogramVec(prometheus.HistogramOpts{
		Name: "cutroom_http_request_seconds", Help: "Time from header to end of answer.",
		Buckets: []float64{.005, .02, .1, .5, 2, 10, 60, 600},
	}, []string{"area", "method", "status"})
	for _, a := range areas {
		m.requests.WithLabelValues(a, http.MethodGet, "200") // or a rate would miss the first answer
	}
	return m
}

func (m *metrics) show(b *board.Board) {
	in := promauto.With(m.registry)
	in.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "cutroom_board_watchers", Help: "Streams of /ops/events that are open.",
	}, func() float64 { return float64(b.Watchers()) })
	in.NewCounterFunc(prometheus.CounterOpts{
		Name: "cutroom_board_storage_requests_total", Help: "Storage requests of the one reader for all who watch the board.",
	}, func() float64 { return float64(b.Requests()) })
	m.registry.MustRegister(scaleMetrics{b})
}

// changed is told of every change of META that this role committed.
func (m *metrics) changed(before, after video.Video) {
	if before.UploadedAt.IsZero() && !after.UploadedAt.IsZero() {
		m.uploads.Inc()
		m.bytes.Add(float64(after.SizeBytes))
	}
}

func (m *metrics) observe(r *http.Request, status int, took time.Duration) {
	m.requests.WithLabelValues(area(r.URL.Path), method(r.Method), strconv.Itoa(status)).Observe(took.Seconds())
}

// scaleMetrics asks for the scaling signal when metrics are collected. Storage that does
// not answer leaves the others as they are.
type scaleMetrics struct{ board *board.Board }

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
	state, err := m.board.State(ctx)
	if err != nil {
		slog.Warn("metrics lack the queues", "error", err)
		gauge(scaleRead, 0)
		return
	}
	d := state.Decision
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

var areas = []string{"content", "events", "ops", "api", "playback", "health", "page"}

func area(path string) string {
	switch {
	case strings.HasSuffix(path, "/content"):
		return "content"
	case path == "/api/v1/ops/events":
		return "events" // they last as long as a page is open
	case strings.HasPrefix(path, "/api/v1/ops/"):
		return "ops"
	case strings.HasPrefix(path, "/api/"):
		return "api"
	case strings.HasPrefix(path, "/v/"):
		return "playback"
	case path == "/livez", path == "/readyz", path == "/metrics":
		return "health"
	}
	return "page"
}

func method(name string) string {
	switch name {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return name
	}
	return "other"
}
