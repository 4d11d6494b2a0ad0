package partitions

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Proxy is a running model in front of a table endpoint.
type Proxy struct {
	cfg    Config
	model  *model
	target *url.URL
	origin string // the connection string without the proxy
	client *http.Transport
	server *http.Server
	addr   string
	served chan error
	number atomic.Int64 // of requests, for their ids
}

// Start listens on a free port of the loopback address and forwards what it lets
// through to the table endpoint of the connection string, which must name one,
// as Azurite's do.
func Start(connectionString string, cfg Config) (*Proxy, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(tableEndpoint(connectionString))
	if err != nil || target.Host == "" {
		return nil, errors.New("partition proxy: the connection string names no TableEndpoint")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("partition proxy: %w", err)
	}
	p := &Proxy{
		cfg: cfg, model: newModel(cfg), target: target, origin: connectionString, addr: listener.Addr().String(),
		// Azurite closes idle connections after 5 s: ours go before.
		client: &http.Transport{IdleConnTimeout: 3 * time.Second, MaxIdleConnsPerHost: 256, DisableCompression: true},
		served: make(chan error, 1),
	}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: time.Minute, IdleTimeout: 5 * time.Second} // as Azurite's
	go func() { p.served <- p.server.Serve(listener) }()
	return p, nil
}

// Close ends the proxy with all its connections. Safe to repeat.
func (p *Proxy) Close() error {
	err := p.server.Close()
	<-p.served
	p.served <- nil // for a second call
	p.client.CloseIdleConnections()
	return err
}

// ConnectionString is the one that Start was given, with its tables behind the
// proxy. Blobs and queues stay where they are.
func (p *Proxy) ConnectionString() string {
	through := *p.target
	through.Host = p.addr
	return strings.Replace(p.origin, tableEndpoint(p.origin), through.String(), 1)
}

// URL is where the counters are, as JSON, for people: the Stats.
func (p *Proxy) URL() string { return "http://" + p.addr + statsPath }

// Stats is what has happened so far.
func (p *Proxy) Stats() Stats { return p.model.stats() }

const statsPath = "/.partitions"

func tableEndpoint(connectionString string) string {
	for pair := range strings.SplitSeq(connectionString, ";") {
		if name, value, _ := strings.Cut(pair, "="); strings.EqualFold(strings.TrimSpace(name), "TableEndpoint") {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// ServeHTTP answers for the table service.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == statsPath {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(p.Stats())
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	began := p.cfg.Now()
	op, err := read(r, body)
	if err != nil || op.kind == management || op.kind == dropTable {
		// What the model does not understand the service may refuse.
		p.manage(w, r, op, body)
		return
	}
	fate, rangeEnd := p.model.admit(op.table, op.key, op.kind == rows || op.query.exact, op.cost)
	switch fate {
	case refused, away:
		p.fail(w, r, http.StatusServiceUnavailable, "ServerBusy", "The server is busy.")
		return
	case timedOut:
		// The service gives up after a while, its client may have done so before.
		pause(r.Context(), min(p.cfg.MoveTime/4, 10*time.Second))
		p.fail(w, r, http.StatusInternalServerError, "OperationTimedOut", "Operation could not be completed within the specified time.")
		return
	case reset:
		BreakConnection(w)
		return
	}
	var answer *reply
	if op.kind == query {
		answer, err = p.query(r, op, rangeEnd)
	} else {
		answer, err = p.forward(r, r.URL.Query(), body)
	}
	if err != nil || fate == lostReply || p.model.replyLost(op.table, op.key, began) {
		BreakConnection(w)
		return
	}
	answer.send(w)
}

func (p *Proxy) manage(w http.ResponseWriter, r *http.Request, op operation, body []byte) {
	if !p.model.admitAccount() {
		p.fail(w, r, http.StatusServiceUnavailable, "ServerBusy", "The server is busy.")
		return
	}
	answer, err := p.forward(r, r.URL.Query(), body)
	if err != nil {
		BreakConnection(w)
		return
	}
	if op.kind == dropTable && answer.status < 300 {
		p.model.forget(op.table)
	}
	answer.send(w)
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
	how, newTop := p.model.cut(!values.Has("NextPartitionKey"), top)
	if how != fullPage {
		values.Set("$top", strconv.Itoa(newTop))
	}
	if how == emptyPage { // look at the row where the next page begins
		values.Del("$select")
	}
	answer, err := p.forward(r, values, nil)
	if err != nil || answer.status != http.StatusOK {
		return answer, err
	}
	found, err := answer.rows()
	if err != nil {
		return answer, nil // not ours to judge
	}
	if how == emptyPage && len(found) > 0 {
		setToken(answer.header, found[0].PartitionKey, found[0].RowKey)
		p.model.countPages(true, false, false)
		return answer, answer.clear()
	}
	ended := beyond && answer.header.Get(nextPartition) == ""
	if ended {
		setToken(answer.header, rangeEnd, "")
	}
	p.model.countPages(ended && len(found) == 0, how == shortPage && len(found) == newTop, ended)
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

// reply is an answer of Azurite, read to its end.
type reply struct {
	status int
	header http.Header
	body   []byte
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

func (a *reply) send(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	if a.status != http.StatusNoContent && a.status != http.StatusNotModified {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // the client may have gone
}

// ConnectionHeaders concern one connection, not the request: a proxy does not
// hand them on.
var ConnectionHeaders = []string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length"}

// forward sends the request on, with other query values and the path and
// headers as they are, so that the signature holds.
func (p *Proxy) forward(r *http.Request, values url.Values, body []byte) (*reply, error) {
	to := *r.URL
	to.Scheme, to.Host, to.RawQuery = p.target.Scheme, p.target.Host, values.Encode()
	req, err := http.NewRequestWithContext(r.Context(), r.Method, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.URL = &to // keeps the path's own escapes
	req.Host = r.Host
	req.Header = r.Header.Clone()
	for _, name := range ConnectionHeaders {
		req.Header.Del(name)
	}
	res, err := p.client.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	content, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	header := res.Header.Clone()
	for _, name := range ConnectionHeaders {
		header.Del(name)
	}
	return &reply{status: res.StatusCode, header: header, body: content}, nil
}

// fail answers as the table service does: its code in the header and in an OData
// or XML body. There is no Retry-After, as on Azure.
func (p *Proxy) fail(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	id := fmt.Sprintf("partitions-%08d", p.number.Add(1))
	message += fmt.Sprintf("\nRequestId:%s\nTime:%s", id, time.Now().UTC().Format("2006-01-02T15:04:05.0000000Z"))
	w.Header().Set("x-ms-error-code", code)
	w.Header().Set("x-ms-request-id", id)
	w.Header().Set("x-ms-version", "2019-02-02")
	if strings.Contains(r.Header.Get("Accept"), "json") {
		type text struct {
			Lang  string `json:"lang"`
			Value string `json:"value"`
		}
		type failure struct {
			Code    string `json:"code"`
			Message text   `json:"message"`
		}
		w.Header().Set("Content-Type", "application/json;odata=minimalmetadata;streaming=true;charset=utf-8")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]failure{"odata.error": {Code: code, Message: text{"en-US", message}}})
		return
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="utf-8"?><error xmlns="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata"><code>%s</code><message xml:lang="en-US">%s</message></error>`, code, message)
}

// BreakConnection makes the client see a reset. Nothing can be answered after it.
func BreakConnection(w http.ResponseWriter) {
	if h, ok := w.(http.Hijacker); ok {
		if conn, _, err := h.Hijack(); err == nil {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			_ = conn.Close()
			return
		}
	}
	panic(http.ErrAbortHandler)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
