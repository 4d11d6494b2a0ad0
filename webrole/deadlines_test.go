package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

// promised is how long a client waits for an answer at most; slack is for a busy
// machine.
const (
	promised = 10 * time.Second
	slack    = 2 * time.Second
)

// TestHangingStorage asks every route of the document, and playback, of a role
// whose storage accepts connections and never answers. Each says in time that it is
// away, and when to come again.
func TestHangingStorage(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	storage := azuritetest.NewProxy(t)
	s := startOps(t, map[string]string{"AZURE_STORAGE_CONNECTION_STRING": storage.ConnectionString(), "WEBROLE_DRAIN_TIMEOUT": "10s", "WEBROLE_REQUEST_TIMEOUT": "9s"})
	v := s.create(map[string]any{})
	doc, err := document()
	if err != nil {
		t.Fatal(err)
	}
	storage.BeginAll(inject.Silence)

	values := strings.NewReplacer("{id}", v.Id, "{event}", "2011%20New%20York%20City%20Marathon__Full", "{bib}", "7",
		"{clip}", "g1-0-50", "{language}", "en", "{queue}", "probe", "{poisonId}", "probe~x", "{keyId}", strings.Repeat("a", 12))
	bodies := map[string]string{
		"POST /videos": `{"title":"a"}`, "PATCH /videos/{id}": `{"title":"b"}`, "POST /videos/{id}/clips": `{"startSeconds":0,"durationSeconds":5}`,
		"PATCH /events/{event}/registrations/{bib}": `{"age":30}`, "POST /events/{event}/registrations/{bib}/clips": `{}`, "POST /videos/{id}/seek": `{"at":1}`, "POST /ops/keys": `{"name":"a","owner":"a","role":"viewer"}`,
	}
	var wg sync.WaitGroup
	ask := func(name, method, url string, body any, headers ...string) {
		wg.Go(func() {
			begin := time.Now()
			a := s.send(s.request(method, url, body, append(headers, "If-Match", "*")...))
			took := time.Since(begin)
			if took > promised+azuritetest.Patience(slack) {
				t.Errorf("%s: %d after %v", name, a.StatusCode, took)
			}
			if a.StatusCode != http.StatusServiceUnavailable || a.code(t) != "storage_unavailable" || a.Header.Get("Retry-After") == "" {
				t.Errorf("%s: %d %v %s", name, a.StatusCode, a.Header, a.body)
			}
		})
	}
	for template, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			name := method + " " + template
			if name == "POST /events/{event}/registrations" {
				continue // has its own pace: TestHangingStorageEndsAStream
			}
			path := s.public + "/api/v1" + values.Replace(template)
			switch text, isJSON := bodies[name]; {
			case isJSON:
				ask(name, method, path, text)
			case strings.HasSuffix(template, "/content"):
				ask(name, method, path, movie(1000))
			case name == "POST /videos/{id}/captions/{language}":
				ask(name, method, path, []byte("WEBVTT"), "Content-Type", "text/vtt")
			case template == "/search":
				ask(name, method, path+"?q=word", nil)
			default:
				ask(name, method, path, nil)
			}
		}
	}
	for _, path := range []string{"/master.m3u8", "/720p/1.m4s?g=1", "/poster.jpg", "/download.mp4", "/clips/g1-0-50.mp4"} {
		ask("GET "+path, http.MethodGet, s.public+"/v/"+v.Id+path, nil)
	}
	wg.Wait()
}

// TestHangingStorageEndsAStream: what has a pace of its own does not hang for
// ever either when storage falls silent in the middle.
func TestHangingStorageEndsAStream(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	storage := azuritetest.NewProxy(t)
	s := start(t, map[string]string{"AZURE_STORAGE_CONNECTION_STRING": storage.ConnectionString(), "WEBROLE_DRAIN_TIMEOUT": "10s", "WEBROLE_REQUEST_TIMEOUT": "9s"})
	v := s.create(map[string]any{})
	var wg sync.WaitGroup
	stream := func(method, path, kind string, first, rest io.Reader, size int64) {
		reader, writer := io.Pipe()
		req := s.request(method, s.public+"/api/v1"+path, nil, "Content-Type", kind)
		req.Body, req.ContentLength = reader, size
		began := make(chan struct{})
		wg.Go(func() {
			_, err := io.Copy(writer, first)
			close(began)
			if err == nil {
				time.Sleep(time.Second) // the pause of a client; storage hangs when it goes on
				_, err = io.Copy(writer, rest)
			}
			_ = writer.CloseWithError(err)
		})
		wg.Go(func() {
			begin := time.Now()
			a := s.send(req)
			a.want(t, http.StatusServiceUnavailable, "storage_unavailable")
			if took := time.Since(begin); took > azuritetest.Patience(40*time.Second) || a.Header.Get("Retry-After") == "" {
				t.Errorf("%s: after %v, Retry-After %q", path, took, a.Header.Get("Retry-After"))
			}
		})
		<-began
	}
	content := string(movie(3 * blobstore.BlockSize))
	stream(http.MethodPut, "/videos/"+v.Id+"/content", "video/mp4", strings.NewReader(content[:blobstore.BlockSize]), strings.NewReader(content[blobstore.BlockSize:]), int64(len(content)))
	for _, p := range parts {
		for _, s := range p.streams {
			stream(http.MethodPost, s.path, s.kind, strings.NewReader(s.first), strings.NewReader(s.rest), -1)
		}
	}
	storage.BeginAll(inject.Silence)
	wg.Wait()
}

// TestSlowUploadIsNotCutOff: a body that moves may take longer than any deadline.
func TestSlowUploadIsNotCutOff(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	s := start(t, nil)
	v := s.create(map[string]any{})
	content := movie(600 << 10)
	conn := s.dial()
	fmt.Fprintf(conn, "PUT /api/v1/videos/%s/content HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", v.Id, len(content))
	reader := bufio.NewReader(conn)
	if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("%q, %v, want 100 Continue", line, err)
	}
	const parts = 12 // one each second: 12 s, 50 KiB/s
	for i := range parts {
		part := len(content) / parts
		if _, err := conn.Write(content[i*part : (i+1)*part]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
	}
	// The connection is good for another request.
	fmt.Fprintf(conn, "GET /api/v1/videos/%s HTTP/1.1\r\nHost: localhost\r\n\r\n", v.Id)
	_, _ = reader.ReadString('\n') // the end of 100 Continue
	for _, want := range []int{http.StatusAccepted, http.StatusOK} {
		resp, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != want || !strings.Contains(string(body), v.Id) {
			t.Errorf("%d %s, %v; want %d", resp.StatusCode, body, err, want)
		}
	}
}

// dial opens a connection that is closed at the end of the test.
func (s *server) dial() net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.public, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(azuritetest.Patience(45 * time.Second))); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

// TestBodiesThatStall sends a part of a body and then nothing, with the
// connection open. Each is answered in time, and the connection is closed.
func TestBodiesThatStall(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	open := start(t, nil)
	guarded := start(t, map[string]string{"WEBROLE_TOKEN": "a token of enough length"})
	v := open.create(map[string]any{})
	json := "POST /api/v1/videos HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
	type body struct {
		name, text string
		s          *server
		status     int
		within     time.Duration
	}
	bodies := []body{
		{"JSON", json, open, 408, 10 * time.Second},
		{"JSON in chunks", "POST /api/v1/videos HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", open, 408, 10 * time.Second},
		{"JSON of a kind that is not read", strings.Replace(json, "application/json", "text/plain", 1), open, 415, 2 * time.Second},
		{"without the token", json, guarded, 401, 2 * time.Second},
		{"large, without the token", "PUT /api/v1/videos/" + v.Id + "/content HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\n\r\nx", guarded, 401, 2 * time.Second},
		{"unknown route", "POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx", open, 404, 2 * time.Second},
		{"a method without a body", "DELETE /api/v1/videos/" + strings.Repeat("b", 26) + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx", open, 404, 2 * time.Second},
		{"content", "PUT /api/v1/videos/" + v.Id + "/content HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000\r\n\r\n" + string(movie(1000)), open, 408, 30 * time.Second},
	}
	for _, p := range parts {
		for _, s := range p.streams {
			bodies = append(bodies, body{s.path, "POST /api/v1" + s.path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: " + s.kind + "\r\nContent-Length: 1000\r\n\r\n" + s.first, open, 408, 30 * time.Second})
		}
	}
	for _, c := range bodies {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conn := c.s.dial()
			begin := time.Now()
			if _, err := io.WriteString(conn, c.text); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != c.status || !resp.Close {
				t.Errorf("%d %s, connection closed: %v, %v; want %d", resp.StatusCode, body, resp.Close, err, c.status)
			}
			if c.status == http.StatusRequestTimeout && !strings.Contains(string(body), `"code":"request_timeout"`) {
				t.Errorf("code: %s", body)
			}
			if n, err := conn.Read(make([]byte, 1)); err == nil || n > 0 || !isClosed(err) {
				t.Errorf("the connection stays open: %d, %v", n, err)
			}
			if took := time.Since(begin); took > c.within+azuritetest.Patience(2*slack) {
				t.Errorf("took %v, want %v", took, c.within)
			}
		})
	}
}

// isClosed tells a closed connection from a deadline of the test's own.
func isClosed(err error) bool {
	var network net.Error
	return !(errors.As(err, &network) && network.Timeout())
}

// TestSlowDownloadIsNotCutOff: a player may take its time over a file that is far
// larger than what fits between it and storage.
func TestSlowDownloadIsNotCutOff(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	f := newFixture(t, nil)
	f.chunk(0, 2)
	f.chunk(1, 1)
	f.audio()
	f.blob = movie(32 << 20)
	f.finish()
	resp, err := f.client.Do(f.request(http.MethodGet, f.public+"/v/"+string(f.id)+"/download.mp4", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // reading only
	time.Sleep(promised + slack)
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil || n != int64(len(f.blob)) {
		t.Errorf("%d of %d bytes: %v", n, len(f.blob), err)
	}
}

// TestFairClientsKeepTheirConnection: a client that sends what it announced is not
// punished, neither for a body that was not wanted nor for requests in a row.
func TestFairClientsKeepTheirConnection(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	s := start(t, nil)
	const head = " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n"
	const body = `{"title":"a"}`
	conn := s.dial()
	reader := bufio.NewReader(conn)
	want := func(status int) {
		t.Helper()
		resp, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != status || resp.Close {
			t.Errorf("%d %s, closed: %v, %v; want %d", resp.StatusCode, text, resp.Close, err, status)
		}
	}
	// Three at once, one of which is not read.
	if _, err := io.WriteString(conn, "POST /api/v1/videos"+head+body+"POST /nothing"+head+body+"POST /api/v1/videos"+head+body); err != nil {
		t.Fatal(err)
	}
	want(http.StatusCreated)
	want(http.StatusNotFound)
	want(http.StatusCreated)
	// One in pieces, for longer than a body that is not read would have.
	if _, err := io.WriteString(conn, "POST /api/v1/videos"+head); err != nil {
		t.Fatal(err)
	}
	for i := range body {
		time.Sleep(500 * time.Millisecond)
		if _, err := io.WriteString(conn, body[i:i+1]); err != nil {
			t.Fatal(err)
		}
	}
	want(http.StatusCreated)
	// And one after a rest.
	time.Sleep(3 * time.Second)
	if _, err := io.WriteString(conn, "GET /api/v1/videos HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	want(http.StatusOK)
}
