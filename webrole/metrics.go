package main

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/cutroom/cutroom/webrole/internal/board"
)

// metrics are for the admin listener. Labels are few and fixed: an id in a label
// would make a series per video.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.HistogramVec
}

func newMetrics(b *board.Board) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "cutroom_http_request_seconds", Help: "Time from header to end of answer.",
			Buckets: []float64{.005, .02, .1, .5, 2, 10, 60, 600},
		}, []string{"area", "method", "status"}),
	}
	lookers := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "cutroom_board_lookers", Help: "Streams of /ops/events that are open.",
	}, func() float64 { return float64(b.Lookers()) })
	reads := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "cutroom_board_storage_requests_total", Help: "Storage requests of the one reader for all who look at the board.",
	}, func() float64 { return float64(b.Requests()) })
	m.registry.MustRegister(m.requests, lookers, reads, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) observe(r *http.Request, status int, took time.Duration) {
	m.requests.WithLabelValues(area(r.URL.Path), method(r.Method), strconv.Itoa(status)).Observe(took.Seconds())
}

func area(path string) string {
	switch {
	case strings.HasSuffix(path, "/content"):
		return "content"
	case path == "/api/v1/ops/events":
		return "events" // they last as long as somebody looks
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
