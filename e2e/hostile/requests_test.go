package hostile_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

const (
	rateLimit = 60 // requests of one client in 10 s
	guardedBy = "a-token-of-enough-letters"
	someTitle = `{"title":"a"}`
	nobodysID = "bbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// guarded is a web role of the corpus that is set up for the internet: with a token, a
// trusted proxy, a limit of requests and sign-in.
type guarded struct {
	base   string
	client *http.Client

	mine, private, deleted string // ids of videos: that one may fill, another owner's, gone
	film                   func(t *testing.T) string
	stranger               string // key of an uploader who owns none of them
	sent                   atomic.Int32
}

func (c *corpus) startGuarded(ctx context.Context) *guarded {
	name, err := c.s.AddWeb(ctx, "WEBROLE_TOKEN="+guardedBy, "WEBROLE_TRUSTED_PROXIES=127.0.0.1", "WEBROLE_PUBLIC_OPS=on",
		"WEBROLE_RATE_LIMIT="+strconv.Itoa(rateLimit), "WEBROLE_OIDC_ISSUER=http://127.0.0.1:1", "WEBROLE_OIDC_CLIENT_ID=us",
		"WEBROLE_URL=http://127.0.0.1", "WEBROLE_SESSION_KEYS="+strings.Repeat("k", 32))
	if err != nil {
		c.t.Fatal(err)
	}
	g := &guarded{base: c.s.WebURL(name), client: &http.Client{
		Transport:     &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	c.t.Cleanup(g.client.CloseIdleConnections)
	return g
}

// reply is an answer that was read to its end.
type reply struct {
	status int
	header http.Header
	body   []byte
	took   time.Duration
}

func (r reply) into(t *testing.T, status int, v any) {
	t.Helper()
	if err := json.Unmarshal(r.body, v); err != nil || r.status != status {
		t.Fatalf("status %d, want %d: %v: %s", r.status, status, err, r.body)
	}
}

// problem reads an answer that is a problem and nothing else.
func (r reply) problem() (client.Problem, error) {
	var p client.Problem
	strict := json.NewDecoder(bytes.NewReader(r.body))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&p); err != nil {
		return p, fmt.Errorf("no problem document: %w: %s", err, r.body)
	}
	if kind := r.header.Get("Content-Type"); kind != "application/problem+json" || p.Status != r.status || p.RequestId == nil && r.header.Get("X-Request-Id") != "" {
		return p, fmt.Errorf("content type %q, a problem of status %d in an answer of status %d, request id %v", kind, p.Status, r.status, p.RequestId)
	}
	return p, nil
}

// ask sends one request, each from a client of its own that may send a few, as the
// operator unless headers say otherwise. A path without /v/ or /auth/ is the API's.
func (g *guarded) ask(t *testing.T, method, path string, body any, headers ...string) reply {
	t.Helper()
	var content io.Reader
	header := http.Header{"Authorization": {"Bearer " + guardedBy}}
	switch b := body.(type) {
	case string:
		content = strings.NewReader(b)
		header.Set("Content-Type", "application/json")
	case []byte:
		content = bytes.NewReader(b)
	}
	if !strings.HasPrefix(path, "/v/") && !strings.HasPrefix(path, "/auth/") {
		path = "/api/v1" + path
	}
	req, err := http.NewRequestWithContext(t.Context(), method, g.base+path, content)
	if err != nil {
		t.Fatal(err)
	}
	header.Set("X-Forwarded-For", fmt.Sprintf("203.0.113.%d", g.sent.Add(1)%200))
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		header.Set(headers[i], headers[i+1])
		if headers[i+1] == "" {
			header.Del(headers[i])
		}
	}
	req.Header = header
	began := time.Now()
	res, err := g.client.Do(req)
	if err != nil {
		t.Fatalf("%s %.80s: %v", method, path, err)
	}
	defer res.Body.Close() //nolint:errcheck // reading only
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %.80s: %v", method, path, err)
	}
	return reply{res.StatusCode, res.Header, data, time.Since(began)}
}

// prepare makes what the requests are about.
func (g *guarded) prepare(t *testing.T) {
	t.Helper()
	for visibility, id := range map[client.Visibility]*string{client.Unlisted: &g.mine, client.Private: &g.private, client.Public: &g.deleted} {
		var v client.Video
		g.ask(t, "POST", "/videos", fmt.Sprintf(`{"title":"a","visibility":%q}`, visibility)).into(t, http.StatusCreated, &v)
		*id = v.Id
	}
	if r := g.ask(t, "DELETE", "/videos/"+g.deleted, nil); r.status != http.StatusAccepted {
		t.Fatalf("delete: %d %s", r.status, r.body)
	}
	var key client.MadeKey
	g.ask(t, "POST", "/ops/keys", `{"name":"of a test","owner":"another","role":"uploader"}`).into(t, http.StatusCreated, &key)
	g.stranger = "Bearer " + key.Text
}

// request is a request of the corpus and its answer. Number is that of the 44 kinds; 0
// for what came later.
type request struct {
	number       int
	name, method string
	path         string
	body         any
	headers      []string
	status       int
	code         string // "": the answer is no problem
}

func (g *guarded) testRequests(t *testing.T) {
	g.prepare(t)
	for _, c := range g.requests(t) {
		t.Run(name(c.number, c.name), func(t *testing.T) {
			r := g.ask(t, c.method, c.path, c.body, c.headers...)
			if r.took > azuritetest.Patience(5*time.Second) {
				t.Errorf("took %v", r.took)
			}
			code := ""
			if r.status >= http.StatusBadRequest {
				p, err := r.problem()
				if err != nil {
					t.Error(err)
				}
				code = p.Code
			}
			if r.status != c.status || code != c.code {
				t.Errorf("%d %s, want %d %s: %.300s", r.status, code, c.status, c.code, r.body)
			}
			if bytes.Contains(r.body, []byte("<script>")) {
				t.Errorf("the answer has the input unescaped: %s", r.body)
			}
		})
	}
	t.Run("bodies that lie", g.testBodies)
	t.Run("harmless oddities", g.testHarmless)
	t.Run(name(36, "one key, two bodies"), g.testIdempotency)
	t.Run(name(38, "two edits at once"), g.testTwoEdits)
	t.Run(name(43, "ranges"), g.testRanges)
	t.Run(name(44, "a burst"), g.testBurst)
}

// requests are the corpus, but for what needs more than one request.
//
// Over 60 lines: it is a table.
func (g *guarded) requests(t *testing.T) []request {
	mine := "/videos/" + g.mine
	list := func(n int) string { return `["x"` + strings.Repeat(`,"x"`, n-1) + `]` }
	any := []string{"If-Match", "*"}
	const evil = "<script>'\"&"
	all := []request{
		{1, "empty body", "POST", "/videos", "", nil, 400, "invalid_json"},
		{1, "empty object", "POST", "/videos", "{}", nil, 400, "invalid_body"},
		{2, "trailing garbage", "POST", "/videos", someTitle + " x", nil, 400, "invalid_json"},
		{3, "duplicate keys", "POST", "/videos", `{"title":"a","title":"b"}`, nil, 400, "invalid_json"},
		{4, "unknown field", "POST", "/videos", `{"title":"a","<script>":1}`, nil, 400, "invalid_body"},
		{4, "field in other case", "POST", "/videos", `{"Title":"a"}`, nil, 400, "invalid_body"},
		{5, "wrong type", "POST", "/videos", `{"title":5}`, nil, 400, "invalid_body"},
		{5, "array", "POST", "/videos", `[]`, nil, 400, "invalid_body"},
		{5, "null title", "POST", "/videos", `{"title":null}`, nil, 400, "invalid_body"},
		{5, "list of numbers", "POST", "/videos", `{"title":"a","tags":[1]}`, nil, 400, "invalid_body"},
		{5, "size as fraction", "POST", "/videos", `{"title":"a","sizeBytes":1.5}`, nil, 400, "invalid_body"},
		{6, "depth 10,000", "POST", "/videos", `{"title":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`, nil, 400, "invalid_json"},
		{7, "invalid UTF-8", "POST", "/videos", "{\"title\":\"\xff\xfe\"}", nil, 400, "invalid_json"},
		{8, "lone surrogate", "POST", "/videos", `{"title":"\ud83d"}`, nil, 400, "invalid_json"},
		{9, "NUL in title", "POST", "/videos", `{"title":"a\u0000b"}`, nil, 400, "invalid_body"},
		{9, "control in title", "POST", "/videos", `{"title":"a\nb"}`, nil, 400, "invalid_body"},
		{10, "empty title", "POST", "/videos", `{"title":""}`, nil, 400, "invalid_body"},
		{10, "blank title", "POST", "/videos", `{"title":"   "}`, nil, 400, "invalid_body"},
		{10, "title of 201 runes", "POST", "/videos", `{"title":"` + strings.Repeat("é", 201) + `"}`, nil, 400, "invalid_body"},
		{0, "list of 51", "POST", "/videos", `{"title":"a","tags":` + list(51) + `}`, nil, 400, "invalid_body"},
		{0, "unknown visibility", "POST", "/videos", `{"title":"a","visibility":"<script>"}`, nil, 400, "invalid_body"},
		{0, "negative size", "POST", "/videos", `{"title":"a","sizeBytes":-1}`, nil, 400, "invalid_body"},
		{0, "size of 2^63", "POST", "/videos", `{"title":"a","sizeBytes":9223372036854775808}`, nil, 400, "invalid_body"},
		{0, "empty edit", "PATCH", mine, `{}`, any, 400, "invalid_body"},

		{11, "id with a way up", "GET", "/videos/%2e%2e%2fx", nil, nil, 400, "invalid_id"},
		{12, "id with a slash", "GET", "/videos/a%2Fb", nil, nil, 400, "invalid_id"},
		{13, "id with a hash", "GET", "/videos/a%23b", nil, nil, 400, "invalid_id"},
		{13, "id with a question mark", "GET", "/videos/a%3Fb", nil, nil, 400, "invalid_id"},
		{13, "id with controls", "GET", "/videos/a%00%0d%0ab", nil, nil, 400, "invalid_id"},
		{13, "id with quotes", "GET", "/videos/%27%20or%20PartitionKey%20ne%20%27", nil, nil, 400, "invalid_id"},
		{14, "id of 10 KB", "GET", "/videos/" + strings.Repeat("a", 10_000), nil, nil, 400, "invalid_id"},
		{0, "id in capitals", "GET", "/videos/" + strings.ToUpper(g.mine), nil, nil, 400, "invalid_id"},
		{15, "limit -1", "GET", "/videos?limit=-1", nil, nil, 400, "invalid_parameter"},
		{15, "limit 0", "GET", "/videos?limit=0", nil, nil, 400, "invalid_parameter"},
		{16, "limit 10^9", "GET", "/videos?limit=1000000000", nil, nil, 400, "invalid_parameter"},
		{16, "limit 2^63", "GET", "/videos?limit=9223372036854775808", nil, nil, 400, "invalid_parameter"},
		{0, "limit text", "GET", "/videos?limit=" + evil, nil, nil, 400, "invalid_parameter"},
		{0, "limit twice", "GET", "/videos?limit=1&limit=2", nil, nil, 400, "invalid_parameter"},
		{17, "forged token", "GET", "/videos?pageToken=AAAA", nil, nil, 400, "invalid_page_token"},
		{17, "token that is no base64", "GET", "/videos?pageToken=%25%25", nil, nil, 400, "invalid_page_token"},
		{17, "token of 5000 bytes", "GET", "/videos?pageToken=" + strings.Repeat("a", 5000), nil, nil, 400, "invalid_page_token"},
		{17, "forged token of a search", "GET", "/search?q=a&pageToken=AAAA", nil, nil, 400, "invalid_page_token"},
		{17, "forged token of poison", "GET", "/ops/poison?pageToken=AAAA", nil, nil, 400, "invalid_page_token"},
		{18, "another query's token", "GET", "/events/A%20Race__Half/registrations?limit=1&pageToken=" + g.token(t), nil, nil, 400, "invalid_page_token"},
		{19, "sort unknown", "GET", "/videos?sort=size", nil, nil, 400, "invalid_parameter"},
		{19, "sort by title without channel", "GET", "/videos?sort=title", nil, nil, 400, "invalid_parameter"},
		{0, "empty channel", "GET", "/videos?channel=", nil, nil, 400, "invalid_parameter"},
		{0, "search of 201 words", "GET", "/search?q=a" + words(200), nil, nil, 400, "invalid_parameter"},
		{0, "unknown parameter", "GET", "/videos?next=//evil.example", nil, nil, 400, "invalid_parameter"},
		{21, "moment before the start", "POST", mine + "/seek", `{"at":-1}`, nil, 400, "invalid_body"},
		{21, "chunk before the first", "GET", "/v/" + g.mine + "/master.m3u8?from=-1", nil, nil, 400, "invalid_parameter"},
		{22, "chunk 2^63", "GET", "/v/" + g.mine + "/master.m3u8?from=9223372036854775808", nil, nil, 400, "invalid_parameter"},
		{22, "moment 10^308", "POST", mine + "/seek", `{"at":1e308}`, nil, 404, "not_playable_yet"},
		{23, "checksum that is none", "PUT", mine + "/content", []byte("x"), []string{"Content-MD5", "x"}, 400, "invalid_checksum"},
		{24, "multipart without boundary", "PUT", mine + "/content", []byte("x"), []string{"Content-Type", "multipart/form-data"}, 415, "unsupported_content_type"},
		{25, "sign-in that leads away", "GET", "/auth/signin?next=//evil.example", nil, nil, 400, "invalid_redirect"},

		{26, "no token", "GET", "/videos", nil, []string{"Authorization", ""}, 401, "unauthorized"},
		{26, "guessed token", "GET", "/videos", nil, []string{"Authorization", "Bearer guess"}, 401, "unauthorized"},
		{31, "another user's private video", "GET", "/videos/" + g.private, nil, []string{"Authorization", g.stranger}, 404, "not_found"},
		{31, "edit of it", "PATCH", "/videos/" + g.private, someTitle, []string{"Authorization", g.stranger, "If-Match", "*"}, 404, "not_found"},
		{32, "deleted video", "GET", "/videos/" + g.deleted, nil, nil, 404, "not_found"},
		{32, "edit of it", "PATCH", "/videos/" + g.deleted, someTitle, any, 404, "not_found"},
		{32, "video that never was", "GET", "/videos/" + nobodysID, nil, nil, 404, "not_found"},
		{32, "edit of it", "PATCH", "/videos/" + nobodysID, someTitle, any, 404, "not_found"},
		{32, "delete of it", "DELETE", "/videos/" + nobodysID, nil, nil, 404, "not_found"},
		{33, "TRACE", "TRACE", "/videos", nil, nil, 405, "method_not_allowed"},
		{33, "PUT of the list", "PUT", "/videos", "{}", nil, 405, "method_not_allowed"},
		{0, "no such address", "GET", "/nothing", nil, nil, 404, "not_found"},
		{34, "form of another site", "POST", "/videos", someTitle, []string{"Sec-Fetch-Site", "cross-site", "Origin", "http://evil.example"}, 403, "cross_origin"},
		{34, "another origin", "DELETE", mine, nil, []string{"Origin", "http://evil.example"}, 403, "cross_origin"},
		{35, "another host", "GET", "/videos", nil, []string{"Host", "evil.example"}, 421, "host_not_allowed"},
		{0, "queue unknown", "GET", "/ops/queues/nope-nope/messages", nil, nil, 404, "queue_not_found"},
		{0, "queue with a way up", "POST", "/ops/queues/..%2f..%2f/clear", nil, nil, 400, "invalid_parameter"},
		{0, "33 messages", "GET", "/ops/queues/probe/messages?limit=33", nil, nil, 400, "invalid_parameter"},
		{0, "poison unknown", "POST", "/ops/poison/nope/redrive", nil, nil, 404, "poison_not_found"},
		{0, "poison with a way up", "POST", "/ops/poison/probe~..%2f..%27/redrive", nil, nil, 404, "poison_not_found"},

		{37, "complete with nothing there", "POST", mine + "/upload/complete", nil, nil, 409, "upload_incomplete"},
		{40, "stale version", "PATCH", mine, someTitle, []string{"If-Match", `"old"`}, 412, "precondition_failed"},
		{40, "no version", "PATCH", mine, someTitle, nil, 428, "precondition_required"},
		{41, "one byte over the limit", "POST", "/videos", `{"title":"a","sizeBytes":5368709121}`, nil, 413, "file_too_large"},
		{41, "10 MB of JSON", "POST", "/videos", `{"title":"` + strings.Repeat("a", 10<<20) + `"}`, nil, 413, "body_too_large"},
		{42, "wrong content type", "POST", "/videos", someTitle, []string{"Content-Type", "text/plain"}, 415, "unsupported_content_type"},
		{42, "unreadable content type", "POST", "/videos", someTitle, []string{"Content-Type", ";;"}, 415, "unsupported_content_type"},
		{42, "gzip", "POST", "/videos", zipped(someTitle), []string{"Content-Type", "application/json", "Content-Encoding", "gzip"}, 415, "unsupported_content_type"},
		{42, "JSON as content", "PUT", mine + "/content", "{}", nil, 415, "unsupported_content_type"},
		{0, "key with a space", "POST", "/videos", someTitle, []string{"Idempotency-Key", "a b"}, 400, "invalid_parameter"},
		{0, "key of 256 bytes", "POST", "/videos", someTitle, []string{"Idempotency-Key", strings.Repeat("k", 256)}, 400, "invalid_parameter"},
	}
	for number, token := range identities(t) {
		all = append(all, request{number, "ID token as a bearer token", "GET", "/videos", nil, []string{"Authorization", "Bearer " + token}, 401, "unauthorized"})
	}
	return all
}

// token is a page token of a list, of the runners of a race.
func (g *guarded) token(t *testing.T) string {
	t.Helper()
	const runners = "/events/A%20Race__Full/registrations"
	if r := g.ask(t, "POST", runners, []byte("bib,name,sex,age\n1,Ann,F,30\n2,Eve,F,31\n"), "Content-Type", "text/csv"); r.status != http.StatusOK {
		t.Fatalf("register two runners: %d %s", r.status, r.body)
	}
	var page client.RegistrationList
	g.ask(t, "GET", runners+"?limit=1", nil).into(t, http.StatusOK, &page)
	if page.NextPageToken == nil {
		t.Fatalf("a list of two runners has one page: %+v", page)
	}
	return *page.NextPageToken
}

// identities are forged ID tokens: unsigned, for another audience, expired, and
// signed with the issuer's public key as if it were a shared secret. None of them counts
// as a bearer token. TestSignInRefuses has them come from an issuer.
func identities(t *testing.T) map[int]string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(&key.PublicKey)})
	part := base64.RawURLEncoding.EncodeToString
	token := func(algorithm, audience string, lives time.Duration) string {
		signed := part(fmt.Appendf(nil, `{"alg":%q,"typ":"JWT"}`, algorithm)) + "." +
			part(fmt.Appendf(nil, `{"iss":"http://127.0.0.1:1","aud":%q,"sub":"me","exp":%d,"roles":["operator"]}`, audience, time.Now().Add(lives).Unix()))
		var signature []byte
		switch algorithm {
		case "RS256":
			sum := sha256.Sum256([]byte(signed))
			if signature, err = rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:]); err != nil {
				t.Fatal(err)
			}
		case "HS256":
			mac := hmac.New(sha256.New, public)
			_, _ = mac.Write([]byte(signed))
			signature = mac.Sum(nil)
		}
		return signed + "." + part(signature)
	}
	return map[int]string{27: token("none", "us", time.Hour), 28: token("RS256", "them", time.Hour), 29: token("RS256", "us", -time.Hour), 30: token("HS256", "us", time.Hour)}
}

func words(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%%20%c%c", 'a'+i%26, 'a'+i/26)
	}
	return b.String()
}

func zipped(text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.Bytes()
}

// testBodies: lengths that are missing, too large, or not kept, which no HTTP client
// would send.
func (g *guarded) testBodies(t *testing.T) {
	head := "Host: localhost\r\nAuthorization: Bearer " + guardedBy + "\r\nX-Forwarded-For: 203.0.113.201\r\n"
	put := "PUT /api/v1/videos/" + g.mine + "/content HTTP/1.1\r\n" + head
	for _, c := range []struct {
		number     int
		name, text string
		status     int
		code       string
	}{
		{20, "fewer bytes than promised", put + "Content-Length: 1000\r\n\r\n" + string(ftyp) + strings.Repeat("x", 100), 400, "body_incomplete"},
		{20, "JSON that ends early", "POST /api/v1/videos HTTP/1.1\r\n" + head + "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"title\":", 400, "body_incomplete"},
		{20, "two lengths", put + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400, ""},
		{21, "negative length", put + "Content-Length: -1\r\n\r\n", 400, ""},
		{22, "length of 2^64", put + "Content-Length: 18446744073709551616\r\n\r\n", 400, ""},
		{39, "no length", put + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", 411, "length_required"},
		{41, "one byte over the limit", put + "Content-Length: 5368709121\r\n\r\n", 413, "file_too_large"},
		{0, "header of 64 KB", "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("a", 64<<10) + "\r\n\r\n", 431, ""},
	} {
		t.Run(name(c.number, c.name), func(t *testing.T) {
			status, body := g.raw(t, c.text)
			if status != c.status || c.code != "" && !strings.Contains(body, `"code":"`+c.code+`"`) {
				t.Errorf("%d %s, want %d %s", status, body, c.status, c.code)
			}
		})
	}
}

// raw sends bytes as they are, ends its side, and reads the answer.
func (g *guarded) raw(t *testing.T, text string) (status int, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the answer is read
	if err := conn.SetDeadline(time.Now().Add(azuritetest.Patience(15 * time.Second))); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%.60q: %v", text, err)
	}
	defer res.Body.Close() //nolint:errcheck // reading only
	data, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(data)
}

// testHarmless: what looks dangerous and is only data.
func (g *guarded) testHarmless(t *testing.T) {
	for _, path := range []string{
		"/search?q=x%27%20or%20PartitionKey%20ne%20%27", "/search?q=", "/search?q=%00", "/search?title=%22unclosed", "/search?tag=%F0%9F%98%80&q=%D7%90",
		"/videos?channel=%27%20or%20true%20or%20%27", "/videos?channel=" + strings.Repeat("%E6%97%A5", 64),
	} {
		if r := g.ask(t, "GET", path, nil); r.status != http.StatusOK || !bytes.Contains(r.body, []byte(`"items":[]`)) {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}

func (g *guarded) testIdempotency(t *testing.T) {
	key := []string{"Idempotency-Key", "a-key-of-this-test"}
	var v client.Video
	g.ask(t, "POST", "/videos", someTitle, key...).into(t, http.StatusCreated, &v)
	r := g.ask(t, "POST", "/videos", `{"title":"b"}`, key...)
	if p, err := r.problem(); err != nil || r.status != http.StatusConflict || p.Code != "idempotency_mismatch" {
		t.Errorf("%d %+v %v", r.status, p, err)
	}
}

// testTwoEdits: of two edits of one version, one is told that it came second.
func (g *guarded) testTwoEdits(t *testing.T) {
	version := g.ask(t, "GET", "/videos/"+g.mine, nil).header.Get("ETag")
	var replies [2]reply
	var both sync.WaitGroup
	for i := range replies {
		both.Go(func() {
			replies[i] = g.ask(t, "PATCH", "/videos/"+g.mine, fmt.Sprintf(`{"title":"of %d"}`, i), "If-Match", version)
		})
	}
	both.Wait()
	if a, b := replies[0].status, replies[1].status; min(a, b) != http.StatusOK || max(a, b) != http.StatusPreconditionFailed {
		t.Errorf("%d and %d, want 200 and 412: %s %s", a, b, replies[0].body, replies[1].body)
	}
}

func (g *guarded) testRanges(t *testing.T) {
	path := "/v/" + g.film(t) + "/poster.jpg"
	size := len(g.ask(t, "GET", path, nil).body)
	for header, status := range map[string]int{
		"bytes=9-1": 200, "bytes=0-0" + strings.Repeat(",2-2", 999): 200, "bytes=-": 200, "lines=1-2": 200, "bytes=0-9": 206,
		"bytes=0-9223372036854775808": 206, "bytes=-9223372036854775809": 206,
		fmt.Sprintf("bytes=%d-", size): 416, "bytes=9223372036854775808-": 416,
	} {
		r := g.ask(t, "GET", path, nil, "Range", header)
		if r.status != status || status == 200 && len(r.body) != size {
			t.Errorf("%.40s: %d with %d bytes of %d, want %d", header, r.status, len(r.body), size, status)
		}
	}
}

func (g *guarded) testBurst(t *testing.T) {
	from := []string{"X-Forwarded-For", "198.51.100.9"}
	began := time.Now()
	for n := range 4 * rateLimit {
		r := g.ask(t, "GET", "/videos", nil, from...)
		if r.status == http.StatusOK {
			continue
		}
		p, err := r.problem()
		if wait, waitErr := strconv.Atoi(r.header.Get("Retry-After")); err != nil || waitErr != nil || p.Code != "rate_limited" || r.status != http.StatusTooManyRequests || wait < 1 || n < rateLimit {
			t.Errorf("request %d: %d %+v, Retry-After %q", n, r.status, p, r.header.Get("Retry-After"))
		}
		return
	}
	if took := time.Since(began); took > 30*time.Second { // 10 s each have rateLimit requests
		t.Logf("NOT SHOWN: this machine is too slow for a burst: %d requests took %v", 4*rateLimit, took)
		return
	}
	t.Error("the burst was not stopped")
}
