package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azuritetest"
)

// TestBadRequests is the API corpus: every bad request is answered at once, by a
// problem with a stable code, never by a server error, and never with its own
// input unescaped.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	v := s.create(map[string]any{})
	video := "/videos/" + v.Id
	list := func(n int) string { return `["x"` + strings.Repeat(`,"x"`, n-1) + `]` }
	const evil = "<script>'\"&"

	for _, c := range []struct {
		name, method, path string
		body               any
		headers            []string
		status             int
		code               string
	}{
		{"empty body", "POST", "/videos", "", nil, 400, "invalid_json"},
		{"empty object", "POST", "/videos", "{}", nil, 400, "invalid_body"},
		{"array", "POST", "/videos", `[]`, nil, 400, "invalid_body"},
		{"trailing garbage", "POST", "/videos", `{"title":"a"} x`, nil, 400, "invalid_json"},
		{"duplicate keys", "POST", "/videos", `{"title":"a","title":"b"}`, nil, 400, "invalid_json"},
		{"unknown field", "POST", "/videos", `{"title":"a","` + "<script>" + `":1}`, nil, 400, "invalid_body"},
		{"other case", "POST", "/videos", `{"Title":"a"}`, nil, 400, "invalid_body"},
		{"wrong type", "POST", "/videos", `{"title":5}`, nil, 400, "invalid_body"},
		{"null title", "POST", "/videos", `{"title":null}`, nil, 400, "invalid_body"},
		{"list of numbers", "POST", "/videos", `{"title":"a","tags":[1]}`, nil, 400, "invalid_body"},
		{"long list", "POST", "/videos", `{"title":"a","tags":` + list(51) + `}`, nil, 400, "invalid_body"},
		{"deep", "POST", "/videos", `{"title":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`, nil, 400, "invalid_json"},
		{"invalid UTF-8", "POST", "/videos", "{\"title\":\"\xff\xfe\"}", nil, 400, "invalid_json"},
		{"lone surrogate", "POST", "/videos", `{"title":"\ud83d"}`, nil, 400, "invalid_json"},
		{"NUL in title", "POST", "/videos", `{"title":"a\u0000b"}`, nil, 400, "invalid_json"},
		{"control in title", "POST", "/videos", `{"title":"a\nb"}`, nil, 400, "invalid_body"},
		{"empty title", "POST", "/videos", `{"title":""}`, nil, 400, "invalid_body"},
		{"blank title", "POST", "/videos", `{"title":"   "}`, nil, 400, "invalid_body"},
		{"title of 201 runes", "POST", "/videos", `{"title":"` + strings.Repeat("é", 201) + `"}`, nil, 400, "invalid_body"},
		{"unknown visibility", "POST", "/videos", `{"title":"a","visibility":"` + "<script>" + `"}`, nil, 400, "invalid_body"},
		{"negative size", "POST", "/videos", `{"title":"a","sizeBytes":-1}`, nil, 400, "invalid_body"},
		{"size as fraction", "POST", "/videos", `{"title":"a","sizeBytes":1.5}`, nil, 400, "invalid_body"},
		{"size of 2^63", "POST", "/videos", `{"title":"a","sizeBytes":9223372036854775808}`, nil, 400, "invalid_body"},
		{"one byte over the limit", "POST", "/videos", `{"title":"a","sizeBytes":5368709121}`, nil, 413, "file_too_large"},
		{"10 MB of JSON", "POST", "/videos", `{"title":"` + strings.Repeat("a", 10<<20) + `"}`, nil, 413, "body_too_large"},
		{"wrong content type", "POST", "/videos", `{"title":"a"}`, []string{"Content-Type", "text/plain"}, 415, "unsupported_content_type"},
		{"unreadable content type", "POST", "/videos", `{"title":"a"}`, []string{"Content-Type", ";;"}, 415, "unsupported_content_type"},
		{"gzip", "POST", "/videos", zipped(`{"title":"a"}`), []string{"Content-Type", "application/json", "Content-Encoding", "gzip"}, 415, "unsupported_content_type"},
		{"multipart without boundary", "PUT", video + "/content", []byte("x"), []string{"Content-Type", "multipart/form-data"}, 415, "unsupported_content_type"},
		{"JSON as content", "PUT", video + "/content", "{}", nil, 415, "unsupported_content_type"},
		{"key with a space", "POST", "/videos", `{"title":"a"}`, []string{"Idempotency-Key", "a b"}, 400, "invalid_parameter"},
		{"key of 256 bytes", "POST", "/videos", `{"title":"a"}`, []string{"Idempotency-Key", strings.Repeat("k", 256)}, 400, "invalid_parameter"},

		{"id with a way up", "GET", "/videos/%2e%2e%2fx", nil, nil, 400, "invalid_id"},
		{"id with a slash", "GET", "/videos/a%2Fb", nil, nil, 400, "invalid_id"},
		{"id with a hash", "GET", "/videos/a%23b", nil, nil, 400, "invalid_id"},
		{"id with a question mark", "GET", "/videos/a%3Fb", nil, nil, 400, "invalid_id"},
		{"id with controls", "GET", "/videos/a%00%0d%0ab", nil, nil, 400, "invalid_id"},
		{"id with quotes", "GET", "/videos/%27%20or%20PartitionKey%20ne%20%27", nil, nil, 400, "invalid_id"},
		{"id of 10 KB", "GET", "/videos/" + strings.Repeat("a", 10_000), nil, nil, 400, "invalid_id"},
		{"id in capitals", "GET", "/videos/" + strings.ToUpper(v.Id), nil, nil, 400, "invalid_id"},
		{"id of nobody", "GET", "/videos/" + strings.Repeat("b", 26), nil, nil, 404, "not_found"},
		{"id of nobody, edit", "PATCH", "/videos/" + strings.Repeat("b", 26), `{"title":"a"}`, []string{"If-Match", "*"}, 404, "not_found"},
		{"id of nobody, delete", "DELETE", "/videos/" + strings.Repeat("b", 26), nil, nil, 404, "not_found"},
		{"empty edit", "PATCH", video, `{}`, []string{"If-Match", "*"}, 400, "invalid_body"},

		{"limit -1", "GET", "/videos?limit=-1", nil, nil, 400, "invalid_parameter"},
		{"limit 0", "GET", "/videos?limit=0", nil, nil, 400, "invalid_parameter"},
		{"limit 10^9", "GET", "/videos?limit=1000000000", nil, nil, 400, "invalid_parameter"},
		{"limit 2^63", "GET", "/videos?limit=9223372036854775808", nil, nil, 400, "invalid_parameter"},
		{"limit text", "GET", "/videos?limit=" + evil, nil, nil, 400, "invalid_parameter"},
		{"limit twice", "GET", "/videos?limit=1&limit=2", nil, nil, 400, "invalid_parameter"},
		{"sort unknown", "GET", "/videos?sort=size", nil, nil, 400, "invalid_parameter"},
		{"sort by title without channel", "GET", "/videos?sort=title", nil, nil, 400, "invalid_parameter"},
		{"open redirect", "GET", "/videos?next=//evil.example", nil, nil, 400, "invalid_parameter"},
		{"forged token", "GET", "/videos?pageToken=AAAA", nil, nil, 400, "invalid_page_token"},
		{"token that is no base64", "GET", "/videos?pageToken=%25%25", nil, nil, 400, "invalid_page_token"},
		{"token of 5000 bytes", "GET", "/videos?pageToken=" + strings.Repeat("a", 5000), nil, nil, 400, "invalid_page_token"},
		{"forged token, search", "GET", "/search?q=a&pageToken=AAAA", nil, nil, 400, "invalid_page_token"},
		{"forged token, poison", "GET", "/ops/poison?pageToken=AAAA", nil, nil, 400, "invalid_page_token"},
		{"empty channel", "GET", "/videos?channel=", nil, nil, 400, "invalid_parameter"},
		{"search of 65 words", "GET", "/search?q=" + strings.Repeat("a%20b%20c", 1) + words65(), nil, nil, 400, "invalid_parameter"},
		{"queue unknown", "GET", "/ops/queues/nope-nope/messages", nil, nil, 404, "queue_not_found"},
		{"queue with a way up", "POST", "/ops/queues/..%2f..%2f/clear", nil, nil, 400, "invalid_parameter"},
		{"peek 33", "GET", "/ops/queues/probe/messages?limit=33", nil, nil, 400, "invalid_parameter"},
		{"poison unknown", "POST", "/ops/poison/nope/redrive", nil, nil, 404, "poison_not_found"},
		{"poison with a way up", "POST", "/ops/poison/probe~..%2f..%27/redrive", nil, nil, 404, "poison_not_found"},

		{"TRACE", "TRACE", "/videos", nil, nil, 405, "method_not_allowed"},
		{"PUT of the list", "PUT", "/videos", "{}", nil, 405, "method_not_allowed"},
		{"no such address", "GET", "/nothing", nil, nil, 404, "not_found"},
		{"cross-site form", "POST", "/videos", `{"title":"a"}`, []string{"Sec-Fetch-Site", "cross-site", "Origin", "http://evil.example"}, 403, "cross_origin"},
		{"another origin", "DELETE", video, nil, []string{"Origin", "http://evil.example"}, 403, "cross_origin"},
		{"rebound host", "GET", "/videos", nil, []string{"Host", "evil.example"}, 421, "host_not_allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			started := time.Now()
			a := s.call(c.method, c.path, c.body, c.headers...)
			if took := time.Since(started); took > 5*time.Second {
				t.Errorf("took %v", took)
			}
			a.want(t, c.status, c.code)
			if bytes.Contains(a.body, []byte("<script>")) {
				t.Errorf("the answer has the input unescaped: %s", a.body)
			}
		})
	}
}

func words65() string {
	var b strings.Builder
	for i := range 65 {
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

// TestHarmlessOddities: what looks dangerous and is only data.
func TestHarmlessOddities(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	for _, path := range []string{
		"/search?q=x%27%20or%20PartitionKey%20ne%20%27", "/search?q=", "/search?q=%00", "/search?title=%22unclosed", "/search?tag=%F0%9F%98%80&q=%D7%90",
		"/videos?channel=%27%20or%20true%20or%20%27", "/videos?channel=" + strings.Repeat("%E6%97%A5", 64),
	} {
		if a := s.call(http.MethodGet, path, nil); a.StatusCode != http.StatusOK || !bytes.Contains(a.body, []byte(`"items":[]`)) {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
	}
}

// raw sends bytes that no HTTP client would send, and reads the answer.
func (s *server) raw(text string, closeWrite bool) (status int, body string) {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.public, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the answer is read
	if err := conn.SetDeadline(time.Now().Add(15 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	if _, err := conn.Write([]byte(text)); err != nil {
		s.t.Fatal(err)
	}
	if tcp, ok := conn.(*net.TCPConn); ok && closeWrite {
		_ = tcp.CloseWrite()
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.t.Fatalf("%.60q: %v", text, err)
	}
	defer resp.Body.Close() //nolint:errcheck // reading only
	var b bytes.Buffer
	_, _ = b.ReadFrom(resp.Body)
	return resp.StatusCode, b.String()
}

// TestBodiesThatLie: lengths that are missing, too large, or not kept.
func TestBodiesThatLie(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	v := s.create(map[string]any{})
	put := "PUT /api/v1/videos/" + v.Id + "/content HTTP/1.1\r\nHost: localhost\r\n"
	for _, c := range []struct {
		name, text string
		status     int
		code       string
	}{
		{"no length", put + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", 411, "length_required"},
		{"one byte over the limit", put + "Content-Length: 5368709121\r\n\r\n", 413, "file_too_large"},
		{"fewer bytes than promised", put + "Content-Length: 1000\r\n\r\n" + string(movie(100)), 400, "body_incomplete"},
		{"a JSON body that ends early", "POST /api/v1/videos HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"title\":", 400, "body_incomplete"},
		{"negative length", put + "Content-Length: -1\r\n\r\n", 400, ""},
		{"length of 2^64", put + "Content-Length: 18446744073709551616\r\n\r\n", 400, ""},
		{"two lengths", put + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400, ""},
		{"header of 64 KB", "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("a", 64<<10) + "\r\n\r\n", 431, ""},
	} {
		status, body := s.raw(c.text, true)
		if status != c.status || (c.code != "" && !strings.Contains(body, `"code":"`+c.code+`"`)) {
			t.Errorf("%s: %d %s, want %d %s", c.name, status, body, c.status, c.code)
		}
	}
}

// TestStorageAway: without storage requests fail with a problem that says so,
// and readiness with them.
func TestStorageAway(t *testing.T) {
	t.Parallel()
	s := start(t, map[string]string{"CUTROOM_RETRY_STRATEGY": "none"})
	v := s.create(map[string]any{})
	if got := s.get("/readyz"); got.StatusCode != http.StatusOK {
		t.Fatalf("ready: %d %s", got.StatusCode, got.body)
	}
	if err := azuritetest.Clean(t.Context(), s.account); err != nil {
		t.Fatal(err)
	}
	a := s.call(http.MethodGet, "/videos/"+v.Id, nil)
	if !bytes.Contains(a.body, []byte(`"storageErrorCode":"TableNotFound"`)) {
		t.Errorf("the storage service's code is missing: %d %s", a.StatusCode, a.body)
	}
	azuritetest.Eventually(t, 5*time.Second, func() error { // an answer holds for a second
		if got := s.get("/readyz"); got.StatusCode != http.StatusServiceUnavailable || got.Header.Get("Retry-After") == "" {
			return fmt.Errorf("ready without its tables: %d %s", got.StatusCode, got.body)
		}
		return nil
	})
	if got := s.get("/livez"); got.StatusCode != http.StatusOK {
		t.Errorf("not alive without storage: %d", got.StatusCode)
	}
}
