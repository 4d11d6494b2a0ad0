package tracing_test

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// span is what the test looks at of one.
type span struct {
	service, name, step string
	trace, id, parent   string
	links               []string // trace and span
	kind                otlp.Span_SpanKind
	failed              bool
	attributes          map[string]string
}

// sink is a collector: it keeps what roles send over OTLP/HTTP.
type sink struct {
	*httptest.Server
	mu    sync.Mutex
	spans []span
	raw   strings.Builder
}

func newSink(t *testing.T) *sink {
	t.Helper()
	s := &sink{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.take(r); err != nil {
			t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *sink) take(r *http.Request) error {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			return err
		}
		body = unzipped
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	var request collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(data, &request); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw.Write(data)
	for _, resource := range request.ResourceSpans {
		service := ""
		for _, a := range resource.Resource.Attributes {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, scope := range resource.ScopeSpans {
			for _, found := range scope.Spans {
				s.spans = append(s.spans, read(service, found))
			}
		}
	}
	return nil
}

func read(service string, from *otlp.Span) span {
	s := span{
		service: service, name: from.Name, kind: from.Kind, trace: hex.EncodeToString(from.TraceId), id: hex.EncodeToString(from.SpanId),
		parent: hex.EncodeToString(from.ParentSpanId), failed: from.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR, attributes: map[string]string{},
	}
	for _, a := range from.Attributes {
		s.attributes[a.Key] = a.Value.GetStringValue()
		if n, ok := a.Value.Value.(*common.AnyValue_IntValue); ok {
			s.attributes[a.Key] = strconv.FormatInt(n.IntValue, 10)
		}
	}
	s.step = s.attributes["workitem.kind"]
	for _, l := range from.Links {
		s.links = append(s.links, hex.EncodeToString(l.TraceId)+hex.EncodeToString(l.SpanId))
	}
	return s
}

// all is what has arrived, and the bytes that brought it.
func (s *sink) all() ([]span, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.spans), s.raw.String()
}
