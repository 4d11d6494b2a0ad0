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

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
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
	cfg     azstore.Config
	account *azstore.Account
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
	inject.CloseIdle()
}

func (t *tap) tell(r *http.Request, body []byte, res *http.Response, answer []byte, err error) {
	what := t.read(r, body)
	x := &Exchange{
		Method: r.Method, Target: azstore.Redact(r.URL.RequestURI()), Sent: headers(r.Header),
		Body: shown(body, r.ContentLength, r.Header), Inside: inside(body),
	}
	reply := "no answer"
	if err != nil {
		x.Answer = azstore.Redact(err.Error())
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
	return azstore.Redact(text)
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

// meanings are those of requests, by service, method in lower case, path and query. The
// first that fits is taken.
var meanings = []struct {
	request *regexp.Regexp
	meaning
}{
	{regexp.MustCompile(`^queue get \?`), meaning{"queues", "list queues"}},
	{regexp.MustCompile(`^queue get (.+)/messages\?.*peekonly=true`), meaning{"queue $1", "peek"}},
	{regexp.MustCompile(`^queue get (.+)/messages\?.*visibilitytimeout=(\d+)`), meaning{"queue $1", "receive, hide for $2 s"}},
	{regexp.MustCompile(`^queue get (.+)/messages\?`), meaning{"queue $1", "receive"}},
	{regexp.MustCompile(`^queue post (.+)/messages\?`), meaning{"queue $1", "send"}},
	{regexp.MustCompile(`^queue delete (.+)/messages\?`), meaning{"queue $1", "clear"}},
	{regexp.MustCompile(`^queue delete (.+)/messages/`), meaning{"queue $1", "delete the message"}},
	{regexp.MustCompile(`^queue put (.+)/messages/.*visibilitytimeout=(\d+)`), meaning{"queue $1", "update, hide for $2 s"}},
	{regexp.MustCompile(`^queue put (.+)\?.*comp=metadata`), meaning{"queue $1", "set metadata"}},
	{regexp.MustCompile(`^queue \w+ (.+)\?.*comp=metadata`), meaning{"queue $1", "length and metadata"}},
	{regexp.MustCompile(`^queue put (.+)\?`), meaning{"queue $1", "create the queue"}},
	{regexp.MustCompile(`^queue (\w+) (.+)\?`), meaning{"queue $2", "$1 the queue"}},

	{regexp.MustCompile(`^blob \w+ ([^/]+)/(.+)\?.*comp=block(?:&|$)`), meaning{"blobs $1", "stage a block of $2"}},
	{regexp.MustCompile(`^blob put ([^/]+)/(.+)\?.*comp=blocklist`), meaning{"blobs $1", "commit the blocks of $2"}},
	{regexp.MustCompile(`^blob \w+ ([^/]+)/(.+)\?.*comp=blocklist`), meaning{"blobs $1", "list the blocks of $2"}},
	{regexp.MustCompile(`^blob \w+ ([^/]+)/(.+)\?.*comp=lease`), meaning{"blobs $1", "lease $2"}},
	{regexp.MustCompile(`^blob \w+ ([^/?]+)\?.*comp=list`), meaning{"blobs $1", "list the blobs"}},
	{regexp.MustCompile(`^blob (\w+) ([^/?]+)\?.*restype=container`), meaning{"blobs $2", "$1 the container"}},
	{regexp.MustCompile(`^blob (\w+) ([^/]+)/(.+)\?`), meaning{"blobs $2", "$1 $3"}},

	{regexp.MustCompile(`^table (\w+) Tables\b`), meaning{"tables", "$1 a table"}},
	{regexp.MustCompile(`^table post (\w+)`), meaning{"table $1", "insert"}},
	{regexp.MustCompile(`^table get (\w+)\(PartitionKey=`), meaning{"table $1", "get one row"}},
	{regexp.MustCompile(`^table get (\w+).*\?(?:.*\$filter=([^&]*))?`), meaning{"table $1", "query $2"}},
	{regexp.MustCompile(`^table delete (\w+)`), meaning{"table $1", "delete one row"}},
	{regexp.MustCompile(`^table put (\w+)`), meaning{"table $1", "replace one row"}},
	{regexp.MustCompile(`^table \w+ (\w+)`), meaning{"table $1", "merge one row"}},
}

var (
	batchTable = regexp.MustCompile(`(?:POST|PUT|MERGE|PATCH|DELETE) \S+/([A-Za-z0-9]+)(?:\(|\s|\?|%28)`)
	batchPart  = regexp.MustCompile(`(?m)^(?:POST|PUT|MERGE|PATCH|DELETE) \S`)
)

// read says what a request asks for.
func (t *tap) read(r *http.Request, body []byte) meaning {
	service, path := t.service(r.URL)
	if path == "$batch" {
		table := "?"
		if found := batchTable.FindSubmatch(body); found != nil {
			table = strings.TrimPrefix(string(found[1]), t.cfg.Prefix)
		}
		return meaning{"table " + table, fmt.Sprintf("transaction of %d", len(batchPart.FindAll(body, -1)))}
	}
	query, err := url.QueryUnescape(r.URL.RawQuery)
	if err != nil {
		query = r.URL.RawQuery
	}
	request := service + " " + strings.ToLower(r.Method) + " " + strings.TrimPrefix(path, t.cfg.Prefix) + "?" + query
	for _, m := range meanings {
		found := m.request.FindStringSubmatchIndex(request)
		if found == nil {
			continue
		}
		fill := func(words string) string { return string(m.request.ExpandString(nil, words, request, found)) }
		told := meaning{fill(m.to), fill(m.verb)}
		if told.verb == "replace one row" && r.Header.Get("If-Match") == "" {
			told.verb = "insert or replace one row"
		}
		return told
	}
	return meaning{service + "s", request}
}

// service is the service of an address, and the path below it.
func (t *tap) service(u *url.URL) (service, path string) {
	full := u.Scheme + "://" + u.Host + u.Path
	for service, base := range map[string]string{"queue": t.account.Queues.URL(), "blob": t.account.Blobs.URL()} {
		if rest, ok := strings.CutPrefix(full, strings.TrimSuffix(base, "/")); ok {
			return service, strings.TrimPrefix(rest, "/")
		}
	}
	path = strings.TrimPrefix(u.Path, "/")
	if account, rest, found := strings.Cut(path, "/"); found && !strings.Contains(account, "(") {
		path = rest // the emulator has the account in the path
	}
	return "table", path
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
