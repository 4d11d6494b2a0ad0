package partitions

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

// Proxy is a running model before the table service of an emulator. Blobs and queues stay
// where they are.
type Proxy struct {
	*inject.Way
	cfg   Config
	model *model
	next  http.RoundTripper
}

// Start stands before the tables that the connection string names, as Azurite's does.
func Start(connectionString string, cfg Config) (*Proxy, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	p := &Proxy{cfg: cfg, model: newModel(cfg)}
	p.Way, err = inject.Open(connectionString, func(service azstore.Service, next http.RoundTripper) http.RoundTripper {
		if service != azstore.Tables {
			return nil
		}
		p.next = next
		return p
	})
	return p, err
}

// Stats is what has happened so far.
func (p *Proxy) Stats() Stats { return p.model.stats() }

// RoundTrip answers for the table service.
func (p *Proxy) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	began := p.cfg.Now()
	op, err := read(r, body)
	if err != nil || op.kind == management || op.kind == dropTable {
		// What the model does not understand the service may refuse.
		return p.manage(r, op, body)
	}
	fate, rangeEnd := p.model.admit(op.table, op.key, op.kind == rows || op.query.exact, op.cost)
	switch fate {
	case refused, away:
		return busy(r), nil
	case timedOut:
		// The service gives up after a while, its client may have done so before.
		pause(r.Context(), min(p.cfg.MoveTime/4, 10*time.Second))
		return inject.Refusal(r, http.StatusInternalServerError, "OperationTimedOut", "Operation could not be completed within the specified time."), nil
	case reset:
		return nil, inject.ErrReset
	}
	var answer *reply
	if op.kind == query {
		answer, err = p.query(r, op, rangeEnd)
	} else {
		answer, err = p.forward(r, r.URL.Query(), body)
	}
	if err != nil {
		return nil, err
	}
	if fate == lostReply || p.model.replyLost(op.table, op.key, began) {
		return nil, inject.ErrReset
	}
	return answer.response(), nil
}

func (p *Proxy) manage(r *http.Request, op operation, body []byte) (*http.Response, error) {
	if !p.model.admitAccount() {
		return busy(r), nil
	}
	answer, err := p.forward(r, r.URL.Query(), body)
	if err != nil {
		return nil, err
	}
	if op.kind == dropTable && answer.StatusCode < http.StatusMultipleChoices {
		p.model.forget(op.table)
	}
	return answer.response(), nil
}

func busy(r *http.Request) *http.Response {
	return inject.Refusal(r, http.StatusServiceUnavailable, "ServerBusy", "The server is busy.")
}

// Names of the service: https://learn.microsoft.com/rest/api/storageservices/query-timeout-and-pagination
const (
	nextPartition = "X-Ms-Continuation-Nextpartitionkey"
	nextRow       = "X-Ms-Continuation-Nextrowkey"
	maxPage       = 1000
)

// query forwards a query so that it ends with the range at the latest, and makes
// the token that continues there. Tokens are Azurite's own form: the key in
// Base64, the first that is still to come.
func (p *Proxy) query(r *http.Request, op operation, rangeEnd string) (*reply, error) {
	values := r.URL.Query()
	top, err := strconv.Atoi(values.Get("$top"))
	if err != nil || top < 1 || top > maxPage {
		top = maxPage
	}
	beyond := rangeEnd != "" && !op.query.exact && (op.query.to == "" || rangeEnd < op.query.to)
	if beyond {
		stopAt(values, rangeEnd)
	}
	cut, newTop := p.model.cut(!values.Has("NextPartitionKey"), top)
	if cut != fullPage {
		values.Set("$top", strconv.Itoa(newTop))
	}
	if cut == emptyPage { // look at the row where the next page begins
		values.Del("$select")
	}
	answer, err := p.forward(r, values, nil)
	if err != nil || answer.StatusCode != http.StatusOK {
		return answer, err
	}
	found, err := answer.rows()
	if err != nil {
		return answer, nil // not ours to judge
	}
	if cut == emptyPage && len(found) > 0 {
		setToken(answer.Header, found[0].PartitionKey, found[0].RowKey)
		p.model.countPages(true, false, false)
		return answer, answer.clear()
	}
	ended := beyond && answer.Header.Get(nextPartition) == ""
	if ended {
		setToken(answer.Header, rangeEnd, "")
	}
	p.model.countPages(ended && len(found) == 0, cut == shortPage && len(found) == newTop, ended)
	costs := map[string]float64{}
	for _, row := range found {
		if row.PartitionKey == "" { // $select leaves it out
			row.PartitionKey = op.key
		}
		costs[row.PartitionKey]++
	}
	if len(found) > 0 { // one is paid
		costs[found[0].PartitionKey]--
	}
	p.model.charge(op.table, costs)
	return answer, nil
}

func setToken(h http.Header, partitionKey, rowKey string) {
	h.Set(nextPartition, base64.StdEncoding.EncodeToString([]byte(partitionKey)))
	if h.Del(nextRow); rowKey != "" {
		h.Set(nextRow, base64.StdEncoding.EncodeToString([]byte(rowKey)))
	}
}

// reply is an answer of Azurite whose body was read to its end.
type reply struct {
	*http.Response
	body []byte
}

type rowKeys struct{ PartitionKey, RowKey string }

func (a *reply) rows() ([]rowKeys, error) {
	var list struct{ Value []rowKeys }
	err := json.Unmarshal(a.body, &list)
	return list.Value, err
}

// clear takes the rows out.
func (a *reply) clear() error {
	var list map[string]json.RawMessage
	if err := json.Unmarshal(a.body, &list); err != nil {
		return err
	}
	list["value"] = json.RawMessage("[]")
	var err error
	a.body, err = json.Marshal(list)
	return err
}

// response is the answer as it goes on.
func (a *reply) response() *http.Response {
	a.Body, a.ContentLength = io.NopCloser(bytes.NewReader(a.body)), int64(len(a.body))
	a.Header.Del("Content-Length") // of the body before it was changed
	return a.Response
}

// forward sends the request on, with other query values and the path and headers as they
// are, so that the signature holds: it covers the date and the path.
func (p *Proxy) forward(r *http.Request, values url.Values, body []byte) (*reply, error) {
	req := r.Clone(r.Context())
	req.URL.RawQuery = values.Encode()
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if len(body) == 0 {
		req.Body = nil
	}
	res, err := p.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	content, err := io.ReadAll(res.Body)
	return &reply{res, content}, err
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
