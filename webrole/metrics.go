package main

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	sharedmetrics "github.com/cutroom/cutroom/shared/metrics"
	"github.com/cutroom/cutroom/shared/video"
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

// newMetrics registers what is told while the role runs; features add what is asked for.
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
