package azuritetest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// TableCall is one request to the table service, as it was on the wire.
type TableCall struct {
	Table string // with the account's prefix
	Class tablestore.Class
	Rows  int    // that came back
	Text  string // method, address and filter, for people
}

// Wire stands between a program and the emulator's table service and notes every
// request. What it tells does not depend on what our own code says of itself.
type Wire struct {
	*inject.Way

	mu    sync.Mutex
	calls []TableCall
}

// NewWire opens a wire to the test's emulator. It closes with the test.
func NewWire(t testing.TB) *Wire {
	t.Helper()
	w := &Wire{}
	w.Way = way(t, func(service azstore.Service, next http.RoundTripper) http.RoundTripper {
		if service != azstore.Tables {
			return nil
		}
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(r)
			if err == nil {
				err = w.note(r, answer)
			}
			return answer, err
		})
	})
	return w
}

// Take returns the calls since the last Take.
func (w *Wire) Take() []TableCall {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := w.calls
	w.calls = nil
	return calls
}

// note reads an answer and hands it on.
func (w *Wire) note(r *http.Request, answer *http.Response) error {
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	answer.Body = io.NopCloser(bytes.NewReader(body))
	answer.ContentLength = int64(len(body))

	call := TableCall{Class: tablestore.Point, Text: r.Method + " " + r.URL.Path}
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	call.Table, _, _ = strings.Cut(resource, "(")
	if r.Method == http.MethodGet && answer.StatusCode < http.StatusBadRequest {
		call.Rows = 1
		if !strings.Contains(resource, "PartitionKey=") {
			filter := r.URL.Query().Get("$filter")
			call.Class, call.Text = classOf(filter), call.Text+" where "+filter
			var page struct{ Value []json.RawMessage }
			if err := json.Unmarshal(body, &page); err != nil {
				return err
			}
			call.Rows = len(page.Value)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, call)
	return nil
}

// classOf reads the class of a query from its filter (paper row T5).
func classOf(filter string) tablestore.Class {
	switch {
	case strings.Contains(filter, "PartitionKey eq '"):
		return tablestore.RowRange
	case strings.Contains(filter, "PartitionKey ge '") && strings.Contains(filter, "PartitionKey lt '"):
		return tablestore.PartitionRange
	}
	return tablestore.Scan
}
