package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: azstore.RedactAttr})))
	azuritetest.Main(m)
}

// server is a web role of the test's own, on ports of its own, with its own
// prefix in the emulator.
type server struct {
	t             *testing.T
	public, admin string // "http://127.0.0.1:…"
	account       *azstore.Account
	blobs         *blobstore.Store
	videos        *videostore.Store
	queues        *azq.Client
	client        *http.Client
	stop          func() // what SIGTERM does
	role          *role
}

// start runs a role the way main does, with variables over the defaults.
func start(t *testing.T, variables map[string]string) *server {
	t.Helper()
	prefix := azuritetest.Prefix()
	account := azuritetest.AccountWith(t, func(c *azstore.Config) { c.Prefix = prefix })
	env := map[string]string{
		"AZURE_STORAGE_CONNECTION_STRING": azuritetest.ConnectionString(t), "CUTROOM_PREFIX": prefix,
		"WEBROLE_ADDR": "127.0.0.1:0", "WEBROLE_ADMIN_ADDR": "127.0.0.1:0", "WEBROLE_DRAIN_TIMEOUT": "2s",
		"WEBROLE_REQUEST_TIMEOUT": min(azuritetest.Patience(9*time.Second), maxWorkTime).Truncate(time.Second).String(),
	}
	for k, v := range variables {
		env[k] = v
	}
	cfg, err := loadConfig(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	role, err := open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- role.serve(ctx) }()
	queues := azq.Open(account, azq.Options{Queues: workflow.Specs})
	s := &server{
		t: t, public: address(role.public.Addr().String()), admin: address(role.admin.Addr().String()), account: account,
		blobs: blobstore.New(account), videos: videostore.New(account, queues), queues: queues,
		client: &http.Client{Transport: &http.Transport{}}, stop: stop, role: role,
	}
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		stop()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
		role.account.CloseIdle()
	})
	return s
}

// startOps is start with operations on the public listener, as every stack has them.
func startOps(t *testing.T, variables map[string]string) *server {
	t.Helper()
	env := map[string]string{"WEBROLE_PUBLIC_OPS": "on"}
	maps.Copy(env, variables)
	return start(t, env)
}

// address replaces "every address" by one that can be dialled.
func address(listener string) string {
	return "http://" + strings.Replace(strings.Replace(listener, "[::]", "127.0.0.1", 1), "0.0.0.0", "127.0.0.1", 1)
}

// answer is a response that was read to its end.
type answer struct {
	*http.Response
	body []byte
}

func (a answer) code(t *testing.T) string {
	t.Helper()
	var p api.Problem
	if err := json.Unmarshal(a.body, &p); err != nil {
		t.Fatalf("answer %d is no problem: %q", a.StatusCode, a.body)
	}
	return p.Code
}

func decode[T any](t *testing.T, a answer, status int) T {
	t.Helper()
	var v T
	if a.StatusCode != status {
		t.Fatalf("%s %s: status %d, want %d: %s", a.Request.Method, a.Request.URL.Path, a.StatusCode, status, a.body)
	}
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("decode %q: %v", a.body, err)
	}
	return v
}

// want fails unless the answer is the problem with this status and code.
func (a answer) want(t *testing.T, status int, code string) {
	t.Helper()
	if a.StatusCode != status {
		t.Fatalf("%s %s: status %d, want %d: %s", a.Request.Method, a.Request.URL.Path, a.StatusCode, status, a.body)
	}
	if code == "" {
		return
	}
	if got := a.code(t); got != code {
		t.Errorf("%s %s: code %q, want %q", a.Request.Method, a.Request.URL.Path, got, code)
	}
	if ct := a.Header.Get("Content-Type"); ct != "application/problem+json" {
		t.Errorf("Content-Type of a problem is %q", ct)
	}
}

// call asks the API; body is a string, a []byte, or anything that becomes JSON.
func (s *server) call(method, path string, body any, headers ...string) answer {
	s.t.Helper()
	return s.send(s.request(method, s.public+"/api/v1"+path, body, headers...))
}

func (s *server) get(path string, headers ...string) answer {
	s.t.Helper()
	return s.send(s.request(http.MethodGet, s.public+path, nil, headers...))
}

func (s *server) request(method, url string, body any, headers ...string) *http.Request {
	s.t.Helper()
	var r io.Reader
	var kind string
	switch b := body.(type) {
	case nil:
	case string:
		r, kind = strings.NewReader(b), "application/json"
	case []byte:
		r = bytes.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			s.t.Fatal(err)
		}
		r, kind = bytes.NewReader(text), "application/json"
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, url, r)
	if err != nil {
		s.t.Fatal(err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	return req
}

// send asks, and checks every answer of the API against the document.
func (s *server) send(req *http.Request) answer {
	s.t.Helper()
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatalf("%s %s: %v", req.Method, req.URL.Path, err)
	}
	defer resp.Body.Close() //nolint:errcheck // reading only
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatalf("%s %s: %v", req.Method, req.URL.Path, err)
	}
	a := answer{resp, body}
	if err := fitsDocument(req, a); err != nil {
		s.t.Errorf("%s %s: the answer does not fit docs/openapi.yaml: %v\n%s", req.Method, req.URL.Path, err, body)
	}
	return a
}

var document = sync.OnceValues(func() (*openapi3.T, error) {
	openapi3filter.RegisterBodyDecoder("text/vtt", openapi3filter.PlainBodyDecoder)
	return api.GetSpec()
})

// fitsDocument validates an answer against the operation that was asked, if the
// document has it.
func fitsDocument(req *http.Request, a answer) error {
	doc, err := document()
	if err != nil {
		return err
	}
	path, isAPI := strings.CutPrefix(req.URL.EscapedPath(), "/api/v1") // %2F is no boundary
	if !isAPI {
		return nil
	}
	for template, item := range doc.Paths.Map() {
		operation := item.GetOperation(req.Method)
		if operation == nil || !fitsTemplate(template, path) {
			continue
		}
		return openapi3filter.ValidateResponse(req.Context(), &openapi3filter.ResponseValidationInput{
			RequestValidationInput: &openapi3filter.RequestValidationInput{
				Request: req, Route: &routers.Route{Spec: doc, Path: template, PathItem: item, Method: req.Method, Operation: operation},
			},
			Status: a.StatusCode, Header: a.Header, Body: io.NopCloser(bytes.NewReader(a.body)),
			Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
		})
	}
	return nil
}

func fitsTemplate(template, path string) bool {
	want, got := strings.Split(template, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if want[i] != got[i] && !strings.HasPrefix(want[i], "{") {
			return false
		}
	}
	return true
}

// create announces a video.
func (s *server) create(body map[string]any) api.Video {
	s.t.Helper()
	if body["title"] == nil {
		body["title"] = "A video"
	}
	return decode[api.Video](s.t, s.call(http.MethodPost, "/videos", body), http.StatusCreated)
}

// movie is size bytes that begin like an MP4 and never repeat.
func movie(size int) []byte {
	out := make([]byte, size)
	state := uint64(size)
	for i := range out {
		state = state*6364136223846793005 + 1442695040888963407
		out[i] = byte(state >> 56)
	}
	copy(out, "\x00\x00\x00\x20ftypisom\x00\x00\x02\x00isomiso2avc1mp41")
	return out
}

// source reads the parts of a video's source, as its manifest names them.
func (s *server) source(id string) []byte {
	s.t.Helper()
	rec, err := s.videos.Get(s.t.Context(), engine.ID(id))
	if err != nil {
		s.t.Fatal(err)
	}
	l, _ := sourceparts.LayoutOf(rec.Subject.Upload)
	m, err := sourceparts.ReadManifest(s.t.Context(), s.blobs, sourceparts.ManifestName(engine.ID(id), l.Epoch), rec.Subject.SourceETag)
	if err != nil {
		s.t.Fatal(err)
	}
	var out []byte
	for n := range m.Parts {
		content, err := s.blobs.Get(s.t.Context(), engine.SourcesContainer, sourceparts.Name(engine.ID(id), l, n))
		if err != nil {
			s.t.Fatal(err)
		}
		out = append(out, content...)
	}
	return out
}

// messages counts what a queue holds.
func (s *server) messages(queue string) int {
	s.t.Helper()
	state, err := s.queues.Queue(queue).Length(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return int(state.Length)
}

// blobsOf lists every blob of a video, staged or committed, as "container/name".
func (s *server) blobsOf(id string) []string {
	s.t.Helper()
	var names []string
	for _, container := range []string{engine.SourcesContainer, engine.MediaContainer} {
		for info, err := range s.blobs.List(s.t.Context(), container, id) {
			if err != nil {
				s.t.Fatal(err)
			}
			names = append(names, fmt.Sprintf("%s/%s", container, info.Name))
		}
	}
	return names
}

func zipped(text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.Bytes()
}

// raw sends bytes that no HTTP client would send, and reads the answer.
func (s *server) raw(text string, closeWrite bool) (status int, body string) {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.public, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the answer is read
	if err := conn.SetDeadline(time.Now().Add(azuritetest.Patience(15 * time.Second))); err != nil {
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

// ready is a fixture of 12 s at 25 frames per second whose generation is finished.
func ready(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, nil)
	f.chunk(0, 2)
	f.chunk(1, 1)
	f.audio()
	f.finish()
	return f
}
