// Package metrics is what both roles measure in the same way. Each role adds its own in its
// metrics.go; docs/metrics.md lists all of them.
package metrics

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/product"
)

// Storage counts the requests of a role to storage. It is safe for concurrent use.
type Storage struct {
	requests   *prometheus.CounterVec
	throttled  *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
	unreadable *prometheus.CounterVec
}

// New returns a registry with what both roles export: the version that runs, Go, the
// process, and storage, with the series that alerts read.
func New() (*prometheus.Registry, *Storage) {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	in := promauto.With(r)
	in.NewGaugeVec(prometheus.GaugeOpts{Name: "cutroom_build_info", Help: "Always 1; the version that runs is a label."},
		[]string{"version"}).WithLabelValues(product.Version()).Set(1)
	s := &Storage{
		requests: in.NewCounterVec(prometheus.CounterOpts{
			Name: "cutroom_storage_requests_total", Help: "Tries of requests to storage, by the status of the answer; 0: none.",
		}, []string{"service", "operation", "status"}),
		throttled: in.NewCounterVec(prometheus.CounterOpts{
			Name: "cutroom_storage_throttled_total", Help: "Tries that storage refused because there were too many (429, 503).",
		}, []string{"service"}),
		seconds: in.NewHistogramVec(prometheus.HistogramOpts{
			Name: "cutroom_storage_request_seconds", Help: "Time of a try until its answer begins.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 5, 30},
		}, []string{"service"}),
		unreadable: in.NewCounterVec(prometheus.CounterOpts{
			Name: "cutroom_unreadable_rows_total", Help: "Times that a row could not be read and was left out or left as it is.",
		}, []string{"table"}),
	}
	for _, service := range []azstore.Service{azstore.Blobs, azstore.Queues, azstore.Tables} {
		s.throttled.WithLabelValues(string(service))
		s.seconds.WithLabelValues(string(service))
	}
	return r, s
}

// Configure has an account tell what it does.
func (s *Storage) Configure(c *azstore.Config) {
	c.Seen = s.seen
	c.Unreadable = func(table string, rows int) { s.unreadable.WithLabelValues(table).Add(float64(rows)) }
}

func (s *Storage) seen(t azstore.Try) {
	service, operation := Split(t.Kind)
	s.requests.WithLabelValues(service, operation, strconv.Itoa(t.Status)).Inc()
	s.seconds.WithLabelValues(service).Observe(t.Took.Seconds())
	if t.Throttled() {
		s.throttled.WithLabelValues(service).Inc()
	}
}

// Split returns the two labels of a kind of request: "blob" and "write" of "blob.write".
func Split(kind azstore.RequestKind) (service, operation string) {
	service, operation, _ = strings.Cut(string(kind), ".")
	return service, operation
}
