package histories_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// service is a model of a storage account, as far as the runtime uses one: queues with
// visibility timeouts, receipts, dequeue counts and metadata; rows with versions; blobs with
// leases. It does what the service documents, in the bubble's time, with a clock of its own.
type service struct {
	skew time.Duration // of its clock

	mu      sync.Mutex
	queues  map[string]*queue
	tables  map[string]map[string]*row // by name, then by the keys as in the address
	blobs   map[string]*blob
	made    int                  // numbers of messages, receipts and versions
	deleted map[string]time.Time // when messages were, by id
	cleared map[string]bool      // messages that others removed, by id
	problem []string             // what a client must not do
}

type queue struct {
	messages []*message // in the order in which they were sent
	metadata http.Header
}

type message struct {
	id, receipt, text string
	count             int64
	inserted, visible time.Time
}

type row struct {
	etag   string
	values map[string]any
}

type blob struct {
	data  []byte
	etag  string
	lease string
	until time.Time
}

func newService(skew time.Duration) *service {
	return &service{skew: skew, queues: map[string]*queue{}, tables: map[string]map[string]*row{}, blobs: map[string]*blob{}, deleted: map[string]time.Time{}, cleared: map[string]bool{}}
}

func (s *service) number() string {
	s.made++
	return fmt.Sprintf("%08d-0000-0000-0000-000000000000", s.made)
}

// answer is what the service replies.
type answer struct {
	status int
	code   string // of an error
	header http.Header
	body   []byte
}

func refusal(status int, code string) answer { return answer{status: status, code: code} }

func (a answer) response(r *http.Request, now time.Time) *http.Response {
	header := http.Header{}
	maps.Copy(header, a.header)
	header.Set("Date", now.UTC().Format(http.TimeFormat))
	body := a.body
	if a.code != "" {
		header.Set("x-ms-error-code", a.code)
		header.Set("Content-Type", "application/xml")
		body = fmt.Appendf(nil, `<?xml version="1.0"?><Error><Code>%s</Code><Message>model</Message></Error>`, a.code)
	}
	return &http.Response{
		Status: http.StatusText(a.status), StatusCode: a.status, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}

// do does what a request asks for.
func (s *service) do(r *http.Request, body []byte) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/") // without the account
	switch r.URL.Port() {
	case "10000":
		return s.blob(r, path, body)
	case "10001":
		return s.queue(r, path, body)
	}
	return s.table(r, path, body)
}

func (s *service) queue(r *http.Request, path string, body []byte) answer {
	parts := strings.Split(path, "/")
	q := s.queues[parts[0]]
	query := r.URL.Query()
	switch {
	case len(parts) == 1 && parts[0] == "" && query.Get("comp") == "list":
		return s.listQueues()
	case len(parts) == 1 && r.Method == http.MethodPut && query.Get("comp") == "":
		if q != nil {
			return refusal(http.StatusConflict, "QueueAlreadyExists")
		}
		s.queues[parts[0]] = &queue{metadata: http.Header{}}
		return answer{status: http.StatusCreated}
	case q == nil:
		return refusal(http.StatusNotFound, "QueueNotFound")
	case len(parts) == 1 && query.Get("comp") == "metadata" && r.Method == http.MethodPut:
		return s.setMetadata(q, r.Header)
	case len(parts) == 1 && query.Get("comp") == "metadata":
		header := q.metadata.Clone()
		header.Set("x-ms-approximate-messages-count", strconv.Itoa(len(q.messages)))
		return answer{status: http.StatusOK, header: header}
	case len(parts) == 2 && r.Method == http.MethodPost:
		return s.send(q, query, body)
	case len(parts) == 2 && r.Method == http.MethodGet:
		return s.receive(q, query)
	case len(parts) == 3 && r.Method == http.MethodPut:
		return s.update(q, parts[2], query, body)
	case len(parts) == 3 && r.Method == http.MethodDelete:
		return s.delete(q, parts[2], query)
	}
	return s.unknown(r)
}

func (s *service) unknown(r *http.Request) answer {
	s.problem = append(s.problem, "the model does not know "+r.Method+" "+r.URL.String())
	return refusal(http.StatusNotImplemented, "NotImplemented")
}

func (s *service) listQueues() answer {
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.queues)) {
		fmt.Fprintf(&list, "<Queue><Name>%s</Name></Queue>", name)
	}
	return answer{status: http.StatusOK, header: http.Header{"Content-Type": {"application/xml"}},
		body: []byte("<EnumerationResults><Queues>" + list.String() + "</Queues><NextMarker/></EnumerationResults>")}
}

func (s *service) setMetadata(q *queue, header http.Header) answer {
	before := epochOf(q.metadata)
	q.metadata = http.Header{}
	for name, values := range header {
		if strings.HasPrefix(strings.ToLower(name), "x-ms-meta-") {
			q.metadata.Set(name, values[0])
		}
	}
	if after := epochOf(q.metadata); after <= before {
		s.problem = append(s.problem, fmt.Sprintf("a policy of epoch %d was written after one of epoch %d", after, before))
	}
	return answer{status: http.StatusNoContent}
}

func epochOf(metadata http.Header) int64 {
	n, _ := strconv.ParseInt(metadata.Get("x-ms-meta-policy_epoch"), 10, 64) // none is 0
	return n
}

func (s *service) send(q *queue, query url.Values, body []byte) answer {
	text, ok := textOf(body)
	if !ok || len(text) > 64<<10 {
		return refusal(http.StatusBadRequest, "RequestBodyTooLarge")
	}
	now := time.Now()
	m := &message{id: s.number(), receipt: s.number(), text: text, inserted: now, visible: now.Add(secondsIn(query, "visibilitytimeout"))}
	q.messages = append(q.messages, m)
	return answer{status: http.StatusCreated, body: s.list(m), header: http.Header{"Content-Type": {"application/xml"}}}
}

func (s *service) receive(q *queue, query url.Values) answer {
	most, _ := strconv.Atoi(cmp.Or(query.Get("numofmessages"), "1"))
	peek := query.Get("peekonly") == "true"
	now := time.Now()
	var got []*message
	for _, m := range q.messages {
		if len(got) < most && !m.visible.After(now) {
			got = append(got, m)
		}
	}
	for _, m := range got {
		if !peek {
			m.count++
			m.receipt, m.visible = s.number(), now.Add(secondsIn(query, "visibilitytimeout"))
		}
	}
	return answer{status: http.StatusOK, body: s.list(got...), header: http.Header{"Content-Type": {"application/xml"}}}
}

// find returns a message whose receipt is the newest.
func (q *queue) find(id string, query url.Values) (*message, answer) {
	i := slices.IndexFunc(q.messages, func(m *message) bool { return m.id == id })
	switch {
	case i < 0:
		return nil, refusal(http.StatusNotFound, "MessageNotFound")
	case q.messages[i].receipt != query.Get("popreceipt"):
		return nil, refusal(http.StatusBadRequest, "PopReceiptMismatch")
	}
	return q.messages[i], answer{}
}

func (s *service) update(q *queue, id string, query url.Values, body []byte) answer {
	m, refused := q.find(id, query)
	if m == nil {
		return refused
	}
	text, ok := textOf(body)
	if !ok || len(text) > 64<<10 {
		return refusal(http.StatusBadRequest, "RequestBodyTooLarge")
	}
	m.text, m.receipt, m.visible = text, s.number(), time.Now().Add(secondsIn(query, "visibilitytimeout"))
	return answer{status: http.StatusNoContent, header: http.Header{
		"X-Ms-Popreceipt": {m.receipt}, "X-Ms-Time-Next-Visible": {s.there(m.visible)},
	}}
}

func (s *service) delete(q *queue, id string, query url.Values) answer {
	m, refused := q.find(id, query)
	if m == nil {
		return refused
	}
	q.messages = slices.DeleteFunc(q.messages, func(other *message) bool { return other == m })
	s.deleted[id] = time.Now()
	return answer{status: http.StatusNoContent}
}

// clear removes all messages of a queue, as another tool does, and returns their texts.
func (s *service) clear(name string) (texts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[name]
	for _, m := range q.messages {
		texts = append(texts, m.text)
		s.deleted[m.id], s.cleared[m.id] = time.Now(), true
	}
	q.messages = nil
	return texts
}

// textOf reads the text of a message in the body of a request.
func textOf(body []byte) (text string, ok bool) {
	var sent struct{ MessageText string }
	err := xml.Unmarshal(body, &sent)
	return sent.MessageText, err == nil && utf8.ValidString(sent.MessageText)
}

// there is a time of ours by the service's clock.
func (s *service) there(t time.Time) string { return t.Add(s.skew).UTC().Format(http.TimeFormat) }

func (s *service) list(messages ...*message) []byte {
	var out bytes.Buffer
	out.WriteString("<QueueMessagesList>")
	for _, m := range messages {
		fmt.Fprintf(&out, "<QueueMessage><MessageId>%s</MessageId><InsertionTime>%s</InsertionTime><ExpirationTime>%s</ExpirationTime><PopReceipt>%s</PopReceipt><TimeNextVisible>%s</TimeNextVisible><DequeueCount>%d</DequeueCount><MessageText>",
			m.id, s.there(m.inserted), s.there(m.inserted.AddDate(100, 0, 0)), m.receipt, s.there(m.visible), m.count)
		_ = xml.EscapeText(&out, []byte(m.text)) // a buffer takes everything
		out.WriteString("</MessageText></QueueMessage>")
	}
	out.WriteString("</QueueMessagesList>")
	return out.Bytes()
}

func secondsIn(query url.Values, name string) time.Duration {
	n, _ := strconv.Atoi(query.Get(name)) // none is 0
	return time.Duration(n) * time.Second
}

// entity is the address of one row.
var entity = regexp.MustCompile(`^([a-z0-9]+)\((PartitionKey='.*',RowKey='.*')\)$`)

func (s *service) table(r *http.Request, path string, body []byte) answer {
	if path == "Tables" && r.Method == http.MethodPost {
		var named struct{ TableName string }
		if err := json.Unmarshal(body, &named); err != nil {
			return refusal(http.StatusBadRequest, "InvalidInput")
		}
		if s.tables[named.TableName] != nil {
			return refusal(http.StatusConflict, "TableAlreadyExists")
		}
		s.tables[named.TableName] = map[string]*row{}
		return answer{status: http.StatusCreated, body: body}
	}
	if name, found := strings.CutSuffix(path, "()"); found && r.Method == http.MethodGet {
		return s.query(name)
	}
	if r.Method == http.MethodPost {
		return s.insert(path, body)
	}
	match := entity.FindStringSubmatch(path)
	if match == nil {
		return s.unknown(r)
	}
	rows, there := s.tables[match[1]]
	if !there {
		return refusal(http.StatusNotFound, "TableNotFound")
	}
	e := rows[match[2]]
	wanted := r.Header.Get("If-Match")
	switch {
	case e == nil && (r.Method != http.MethodPut || wanted != ""):
		return refusal(http.StatusNotFound, "ResourceNotFound")
	case e != nil && wanted != "" && wanted != "*" && wanted != e.etag:
		return refusal(http.StatusPreconditionFailed, "UpdateConditionNotSatisfied")
	}
	switch r.Method {
	case http.MethodGet:
		return s.read(e)
	case http.MethodDelete:
		delete(rows, match[2])
		return answer{status: http.StatusNoContent}
	}
	return s.write(rows, match[2], body)
}

func (s *service) write(rows map[string]*row, keys string, body []byte) answer {
	e := &row{etag: `W/"` + s.number() + `"`, values: map[string]any{}}
	if err := json.Unmarshal(body, &e.values); err != nil {
		return refusal(http.StatusBadRequest, "InvalidInput")
	}
	rows[keys] = e
	return answer{status: http.StatusNoContent, header: http.Header{"Etag": {e.etag}}}
}

func (s *service) insert(table string, body []byte) answer {
	var keys struct{ PartitionKey, RowKey string }
	rows, there := s.tables[table]
	if err := json.Unmarshal(body, &keys); err != nil || !there {
		return refusal(http.StatusNotFound, "TableNotFound")
	}
	address := fmt.Sprintf("PartitionKey='%s',RowKey='%s'", keys.PartitionKey, keys.RowKey)
	if rows[address] != nil {
		return refusal(http.StatusConflict, "EntityAlreadyExists")
	}
	return s.write(rows, address, body)
}

// query returns all rows of a table: those of the tables that are asked so have one partition.
func (s *service) query(name string) answer {
	rows, there := s.tables[name]
	if !there {
		return refusal(http.StatusNotFound, "TableNotFound")
	}
	all := []map[string]any{}
	for _, keys := range slices.Sorted(maps.Keys(rows)) {
		all = append(all, s.shown(rows[keys]))
	}
	return answer{status: http.StatusOK, body: jsonOf(map[string]any{"value": all}), header: http.Header{"Content-Type": {"application/json"}}}
}

func (s *service) shown(e *row) map[string]any {
	values := maps.Clone(e.values)
	values["odata.etag"], values["Timestamp"] = e.etag, time.Now().Add(s.skew).UTC().Format(time.RFC3339)
	return values
}

func jsonOf(values any) []byte {
	body, err := json.Marshal(values)
	if err != nil {
		panic(err) // it was read from JSON
	}
	return body
}

func (s *service) read(e *row) answer {
	body := jsonOf(s.shown(e))
	return answer{status: http.StatusOK, body: body, header: http.Header{"Etag": {e.etag}, "Content-Type": {"application/json"}}}
}

func (s *service) blob(r *http.Request, path string, body []byte) answer {
	b := s.blobs[path]
	query := r.URL.Query()
	switch {
	case query.Get("restype") == "container":
		return answer{status: http.StatusCreated}
	case query.Get("comp") == "lease":
		return s.lease(b, r.Header)
	case r.Method == http.MethodPut:
		if b != nil && r.Header.Get("If-None-Match") == "*" {
			return refusal(http.StatusConflict, "BlobAlreadyExists")
		}
		b = &blob{data: body, etag: `"` + s.number() + `"`}
		s.blobs[path] = b
		return answer{status: http.StatusCreated, header: s.about(b)}
	case b == nil:
		return refusal(http.StatusNotFound, "BlobNotFound")
	case r.Method == http.MethodHead:
		return answer{status: http.StatusOK, header: s.about(b)}
	case r.Method == http.MethodGet:
		header := s.about(b)
		header.Set("Content-Length", strconv.Itoa(len(b.data)))
		return answer{status: http.StatusOK, header: header, body: b.data}
	}
	return s.unknown(r)
}

func (s *service) about(b *blob) http.Header {
	return http.Header{"Etag": {b.etag}, "Last-Modified": {s.there(time.Now())}}
}

func (s *service) lease(b *blob, header http.Header) answer {
	if b == nil {
		return refusal(http.StatusNotFound, "BlobNotFound")
	}
	now := time.Now()
	taken := b.until.After(now)
	for name, values := range header { // some are not in the usual case
		header.Set(name, values[0])
	}
	switch header.Get("x-ms-lease-action") {
	case "acquire":
		id := header.Get("x-ms-proposed-lease-id")
		if taken && b.lease != id {
			return refusal(http.StatusConflict, "LeaseAlreadyPresent")
		}
		duration, _ := strconv.Atoi(header.Get("x-ms-lease-duration")) // the client checked it
		b.lease, b.until = id, now.Add(time.Duration(duration)*time.Second)
		return answer{status: http.StatusCreated, header: http.Header{"X-Ms-Lease-Id": {id}}}
	case "release":
		if header.Get("x-ms-lease-id") != b.lease {
			return refusal(http.StatusConflict, "LeaseIdMismatchWithLeaseOperation")
		}
		b.until = now
		return answer{status: http.StatusOK}
	}
	return refusal(http.StatusNotImplemented, "NotImplemented")
}

// fault is what happens to a request on its way.
type fault string

const (
	none       fault = ""
	busy       fault = "503"
	badGateway fault = "502"     // with a page in Latin-1
	lost       fault = "lost"    // the request does not arrive
	lostReply  fault = "unheard" // it is done, and the reply does not arrive
	slow       fault = "slow"    // it arrives late
)

// lateBy is longer than the lease of a policy and shorter than what a client waits for an answer.
const lateBy = 20 * time.Second

var faults = []fault{busy, badGateway, lost, lostReply, slow}

var errBroken = errors.New("connection reset (model)")

// line is the way of one program to the service: a transport.
type line struct {
	service *service
	delay   func() time.Duration        // of each request
	fault   func(*http.Request) fault   // nil for none
	tell    func(*http.Request, answer) // told of each answer that arrives; may be nil
	asks    func(*http.Request)         // told of each request; may be nil
	cut     func() bool                 // the program is dead: nothing leaves it any more
}

// Do implements azcore's policy.Transporter.
func (l *line) Do(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	if l.cut != nil && l.cut() {
		return nil, errBroken
	}
	if l.asks != nil {
		l.asks(r)
	}
	f := none
	if l.fault != nil {
		f = l.fault(r)
	}
	delay := l.delay()
	if f == slow {
		delay += lateBy
	}
	select {
	case <-time.After(delay):
	case <-r.Context().Done():
		// What was sent may arrive all the same, but not later than networks keep packets.
		if delay < 2*time.Second {
			l.service.do(r, body)
		}
		return nil, r.Context().Err()
	}
	var got answer
	switch f {
	case lost:
		return nil, errBroken
	case busy:
		got = refusal(http.StatusServiceUnavailable, "ServerBusy")
	case badGateway:
		got = answer{status: http.StatusBadGateway, body: []byte("passerelle d\xe9faillante"), header: http.Header{"Content-Type": {"text/html"}}}
	default:
		got = l.service.do(r, body)
	}
	if f == lostReply || l.cut != nil && l.cut() {
		return nil, errBroken
	}
	if l.tell != nil {
		l.tell(r, got)
	}
	return got.response(r, time.Now().Add(l.service.skew)), nil
}
