package main

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// metrics are for the admin listener. Labels are few and fixed: an id in a label
// would make a series per video.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.HistogramVec
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "cutroom_http_request_seconds", Help: "Time from header to end of answer.",
			Buckets: []float64{.005, .02, .1, .5, 2, 10, 60, 600},
		}, []string{"area", "method", "status"}),
	}
	m.registry.MustRegister(m.requests, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) observe(r *http.Request, status int, took time.Duration) {
	m.requests.WithLabelValues(area(r.URL.Path), method(r.Method), strconv.Itoa(status)).Observe(took.Seconds())
}

func area(path string) string {
	switch {
	case strings.HasSuffix(path, "/content"):
		return "content"
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
