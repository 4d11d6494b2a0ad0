package scenes

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/cutroom/cutroom/shared/azstorage"
)

// Exchange is one request and its answer, as they were on the wire. Of the headers it
// has those that say something; signatures and keys are removed.
type Exchange struct {
	Method string   `json:"method"`
	Target string   `json:"target"` // path and query
	Sent   []Header `json:"sent"`
	Body   string   `json:"body"`             // the beginning of it
	Inside string   `json:"inside,omitempty"` // the JSON inside of a message's base64

	Status   int      `json:"status"` // 0: no answer came
	Received []Header `json:"received"`
	Answer   string   `json:"answer"` // the beginning of its body, or why none came
}

// Header is one header of an exchange.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Bounds of what is kept of a body, in bytes.
const (
	maxRead = 1 << 20 // larger ones pass unread
	maxTold = 3000
)

// The headers that teach something.
var telling = []string{
	"Authorization", "Content-Type", "Content-Length", "Content-MD5", "If-Match", "If-None-Match", "Prefer", "Range", "ETag", "Retry-After",
	"x-ms-version", "x-ms-error-code", "x-ms-popreceipt", "x-ms-time-next-visible", "x-ms-approximate-messages-count",
	"x-ms-blob-type", "x-ms-blob-content-md5", "x-ms-lease-action", "x-ms-range-get-content-md5",
	"x-ms-continuation-NextPartitionKey", "x-ms-continuation-NextRowKey",
}

// tap is an actor's transport: it tells what passes.
type tap struct {
	stage   *Stage
	actor   string
	worker  bool // tell only what changes something
	cfg     azstorage.Config
	account *azstorage.Account
	client  *http.Client
	next    policy.Transporter // nil: client
}

type quietKey struct{}

// Quiet returns a context below which requests are not told: preparations, and polls
// that find nothing.
func Quiet(ctx context.Context) context.Context { return context.WithValue(ctx, quietKey{}, true) }

// OnlyTrouble returns a context below which requests are told that are refused or lost:
// for an actor who asks very often.
func OnlyTrouble(ctx context.Context) context.Context {
	return context.WithValue(ctx, quietKey{}, "trouble")
}

// silent reports whether a request is not told.
func (t *tap) silent(r *http.Request, res *http.Response, answer []byte) bool {
	switch r.Context().Value(quietKey{}) {
	case nil:
		return t.worker && idle(r, answer)
	case "trouble":
		return res != nil && res.StatusCode < http.StatusBadRequest
	}
	return true
}

// Do implements azcore's policy.Transporter.
func (t *tap) Do(r *http.Request) (*http.Response, error) {
	sent := r.Clone(r.Context())
	var body []byte
	if r.Body != nil && r.ContentLength > 0 && r.ContentLength <= maxRead {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, fmt.Errorf("read the request's body: %w", err)
		}
		sent.Body = io.NopCloser(bytes.NewReader(body))
		sent.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	var res *http.Response
	var err error
	if t.next != nil {
		res, err = t.next.Do(sent)
	} else {
		res, err = t.client.Do(sent)
	}
	var answer []byte
	if err == nil && res.ContentLength <= maxRead {
		if answer, err = io.ReadAll(res.Body); err == nil {
			err = res.Body.Close()
		}
		if err != nil {
			return nil, fmt.Errorf("read the answer: %w", err)
		}
		res.Body = io.NopCloser(bytes.NewReader(answer))
	}
	if !t.silent(r, res, answer) {
		t.tell(r, body, res, answer, err)
	}
	return res, err
}

// idle reports whether a request neither brought a message nor changed anything.
func idle(r *http.Request, answer []byte) bool {
	return r.Method == http.MethodHead || r.Method == http.MethodGet &&
		(r.URL.Query().Get("peekonly") == "true" || !bytes.Contains(answer, []byte("<QueueMessage>")))
}

// close ends what is open when the scene ends.
func (t *tap) close() {
	t.client.CloseIdleConnections()
	if own, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		own.CloseIdleConnections()
	}
}

func (t *tap) tell(r *http.Request, body []byte, res *http.Response, answer []byte, err error) {
	what := t.read(r, body)
	x := &Exchange{
		Method: r.Method, Target: azstorage.Redact(r.URL.RequestURI()), Sent: headers(r.Header),
		Body: shown(body, r.ContentLength, r.Header), Inside: inside(body),
	}
	reply := "no answer"
	if err != nil {
		x.Answer = azstorage.Redact(err.Error())
	} else {
		x.Status, x.Received, x.Answer = res.StatusCode, headers(res.Header), shown(answer, res.ContentLength, res.Header)
		if x.Inside == "" {
			x.Inside = inside(answer)
		}
		reply = replied(res, answer)
	}
	t.stage.emit(Event{Kind: Wire, From: t.actor, To: what.to, Text: what.verb, Reply: reply, Wire: x})
}

func headers(h http.Header) []Header {
	told := []Header{}
	for _, name := range telling {
		value := h.Get(name)
		if value == "" {
			continue
		}
		if name == "Authorization" {
			scheme, _, _ := strings.Cut(value, ":")
			value = scheme + ":[signature removed]"
			if strings.HasPrefix(scheme, "Bearer") {
				value = "Bearer [token removed]"
			}
		}
		told = append(told, Header{name, value})
	}
	for name, values := range h {
		if strings.HasPrefix(strings.ToLower(name), "x-ms-meta-") {
			told = append(told, Header{strings.ToLower(name), strings.Join(values, ", ")})
		}
	}
	slices.SortStableFunc(told, func(a, b Header) int { return strings.Compare(a.Name, b.Name) })
	return told
}

// shown is the beginning of a body, for people.
func shown(body []byte, length int64, h http.Header) string {
	if len(body) == 0 {
		if length > maxRead {
			return fmt.Sprintf("(%d bytes)", length)
		}
		return ""
	}
	kind := h.Get("Content-Type")
	if !utf8.Valid(body) || strings.HasPrefix(kind, "application/octet-stream") || strings.HasPrefix(kind, "video/") {
		return fmt.Sprintf("(%d bytes)", len(body))
	}
	text := strings.TrimPrefix(string(body), "\ufeff")
	text = strings.ReplaceAll(strings.TrimSpace(text), "\r\n", "\n")
	switch {
	case strings.HasPrefix(text, "<"):
		text = strings.ReplaceAll(xmlDeclaration.ReplaceAllString(text, ""), "><", ">\n<")
	case strings.HasPrefix(kind, "multipart/mixed"):
		text = strings.Join(partLine.FindAllString(text, -1), "\n")
	}
	if len(text) > maxTold {
		text = strings.ToValidUTF8(text[:maxTold], "") + fmt.Sprintf("\n… (%d bytes in all)", len(body))
	}
	return azstorage.Redact(text)
}

var (
	xmlDeclaration = regexp.MustCompile(`^<\?xml[^>]*\?>\s*`)

	// Of a transaction's parts: the requests, the rows, the answers and the versions.
	partLine = regexp.MustCompile(`(?m)^(?:(?:POST|PUT|MERGE|PATCH|DELETE) .*|HTTP/1\.1 .*|If-Match: .*|ETag: .*|\{.*)$`)
)

var messageText = regexp.MustCompile(`<MessageText>([A-Za-z0-9+/=]+)</MessageText>`)

// inside decodes the first message of a body.
func inside(body []byte) string {
	found := messageText.FindSubmatch(body)
	if found == nil {
		return ""
	}
	text, err := base64.StdEncoding.DecodeString(string(found[1]))
	if err != nil || !utf8.Valid(text) {
		return ""
	}
	if len(text) > maxTold {
		return strings.ToValidUTF8(string(text[:maxTold]), "") + fmt.Sprintf("… (%d bytes in all)", len(text))
	}
	return string(text)
}

// meaning is what a request is for: the arrow's end and its words.
type meaning struct{ to, verb string }

// read says what a request asks for, by its method and address.
func (t *tap) read(r *http.Request, body []byte) meaning {
	method, u := r.Method, r.URL
	full := u.Scheme + "://" + u.Host + u.Path
	if rest, ok := below(full, t.account.ServiceQueues().URL()); ok {
		return t.readQueue(method, rest, u.Query())
	}
	if rest, ok := below(full, t.account.ServiceBlobs().URL()); ok {
		return t.readBlob(method, rest, u.Query())
	}
	path := strings.TrimPrefix(u.Path, "/")
	if account, rest, found := strings.Cut(path, "/"); found && !strings.Contains(account, "(") {
		path = rest // the emulator has the account in the path
	}
	m := t.readTable(method, path, u.Query(), body)
	if m.verb == "replace one row" && r.Header.Get("If-Match") == "" {
		m.verb = "insert or replace one row"
	}
	return m
}

func below(full, base string) (string, bool) {
	rest, ok := strings.CutPrefix(full, strings.TrimSuffix(base, "/"))
	return strings.TrimPrefix(rest, "/"), ok
}

func (t *tap) base(name string) string { return strings.TrimPrefix(name, t.cfg.Prefix) }

func (t *tap) readQueue(method, path string, query url.Values) meaning {
	name, rest, _ := strings.Cut(path, "/")
	m := meaning{to: "queue " + t.base(name)}
	switch {
	case name == "":
		return meaning{"queues", "list queues"}
	case rest == "messages" && method == http.MethodGet && query.Get("peekonly") == "true":
		m.verb = "peek"
	case rest == "messages" && method == http.MethodGet && query.Get("visibilitytimeout") == "":
		m.verb = "receive"
	case rest == "messages" && method == http.MethodGet:
		m.verb = "receive, hide for " + query.Get("visibilitytimeout") + " s"
	case rest == "messages" && method == http.MethodPost:
		m.verb = "send"
	case rest == "messages":
		m.verb = "clear"
	case rest != "" && method == http.MethodDelete:
		m.verb = "delete the message"
	case rest != "":
		m.verb = "update, hide for " + query.Get("visibilitytimeout") + " s"
	case query.Get("comp") == "metadata" && method == http.MethodPut:
		m.verb = "set metadata"
	case query.Get("comp") == "metadata":
		m.verb = "length and metadata"
	case method == http.MethodPut:
		m.verb = "create the queue"
	default:
		m.verb = strings.ToLower(method) + " the queue"
	}
	return m
}

func (t *tap) readTable(method, path string, query url.Values, body []byte) meaning {
	name, keys, named := strings.Cut(path, "(")
	m := meaning{to: "table " + t.base(name)}
	switch {
	case path == "$batch":
		m.to = "tables"
		if found := batchTable.FindSubmatch(body); found != nil {
			m.to = "table " + t.base(string(found[1]))
		}
		m.verb = fmt.Sprintf("transaction of %d", len(batchPart.FindAll(body, -1)))
	case name == "Tables":
		m = meaning{"tables", strings.ToLower(method) + " a table"}
	case method == http.MethodPost:
		m.verb = "insert"
	case method == http.MethodGet && strings.HasPrefix(keys, "PartitionKey="):
		m.verb = "get one row"
	case method == http.MethodGet:
		m.verb = "query " + query.Get("$filter")
	case named && method == http.MethodDelete:
		m.verb = "delete one row"
	default:
		m.verb = map[string]string{http.MethodPut: "replace", "MERGE": "merge", http.MethodPatch: "merge"}[method] + " one row"
	}
	return m
}

var (
	batchTable = regexp.MustCompile(`(?:POST|PUT|MERGE|PATCH|DELETE) \S+/([A-Za-z0-9]+)(?:\(|\s|\?|%28)`)
	batchPart  = regexp.MustCompile(`(?m)^(?:POST|PUT|MERGE|PATCH|DELETE) \S`)
)

func (t *tap) readBlob(method, path string, query url.Values) meaning {
	name, blob, _ := strings.Cut(path, "/")
	m := meaning{to: "blobs " + t.base(name)}
	switch comp := query.Get("comp"); {
	case comp == "block":
		m.verb = "stage a block of " + blob
	case comp == "blocklist" && method == http.MethodPut:
		m.verb = "commit the blocks of " + blob
	case comp == "blocklist":
		m.verb = "list the blocks of " + blob
	case comp == "lease":
		m.verb = "lease " + blob
	case comp == "list":
		m.verb = "list the blobs"
	case query.Get("restype") == "container" && comp == "":
		m.verb = strings.ToLower(method) + " the container"
	default:
		m.verb = strings.ToLower(method) + " " + blob
	}
	return m
}

var batchAnswer = regexp.MustCompile(`HTTP/1\.1 (\d{3})`)

var batchCode = regexp.MustCompile(`"code":\s*"([A-Za-z]+)`)

// replied is an answer in a few words.
func replied(res *http.Response, body []byte) string {
	text := fmt.Sprint(res.StatusCode)
	if code := res.Header.Get("x-ms-error-code"); code != "" {
		return text + " " + code
	}
	if parts := batchAnswer.FindAllSubmatch(body, -1); parts != nil {
		text += fmt.Sprintf(", inside %d × %s", len(parts), parts[len(parts)-1][1])
	}
	if code := batchCode.FindSubmatch(body); code != nil && (res.StatusCode >= 400 || res.StatusCode == http.StatusAccepted) {
		return text + " " + string(code[1])
	}
	if n := bytes.Count(body, []byte("<QueueMessage>")); n > 0 || bytes.Contains(body, []byte("<QueueMessagesList")) {
		text += ", " + plural(n, "message")
	}
	if length := res.Header.Get("x-ms-approximate-messages-count"); length != "" {
		text += ", length " + length
	}
	if bytes.Contains(body, []byte(`"value":[`)) {
		text += ", " + plural(bytes.Count(body, []byte(`"PartitionKey":`)), "row")
	}
	if res.Header.Get("x-ms-continuation-NextPartitionKey") != "" {
		text += " and a token"
	}
	return text
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
