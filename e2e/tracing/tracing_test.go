package tracing_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/observe"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

func clip(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "clip.mp4")
	cmd := exec.CommandContext(t.Context(), "ffmpeg", "-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=640x360:r=30:d=40",
		"-f", "lavfi", "-i", "anoisesrc=c=pink:a=0.2:r=48000:seed=1:d=40", "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac", path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make a clip: %v\n%s", err, out)
	}
	return path
}

// TestOneTraceFromUploadToReady collects what the roles send while one worker is stopped
// in the middle and another one ends its work. Every parent and every link leads to a
// span that was sent.
func TestOneTraceFromUploadToReady(t *testing.T) {
	t.Parallel()
	collected := newSink(t)
	s := stacktest.Start(t, stack.Options{Env: []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + collected.URL, "OTEL_BSP_SCHEDULE_DELAY=200",
	}})
	first, err := s.AddWorker(t.Context(), "WORKERROLE_POOLS=light=2,heavy=1")
	if err != nil {
		t.Fatal(err)
	}
	user, err := journey.New(s.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(user.Close)
	v, err := user.Announce(t.Context(), client.NewVideo{Title: "A secret title"})
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(clip(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := user.Put(t.Context(), v.Id, bytes.NewReader(content), int64(len(content))); err != nil {
		t.Fatal(err)
	}
	if _, err := user.Await(t.Context(), v.Id, func(v client.Video) bool { return v.Playable }); err != nil {
		t.Fatal(err)
	}
	// Stopped in the middle of a chunk: what it had is given back, and delivered again.
	if err := s.Kill(first, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Wait(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if _, err := s.AddWorker(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := user.AwaitReady(t.Context(), v.Id); err != nil {
		t.Fatal(err)
	}
	measured(t, s)
	showSecrets(t, s.BaseURL(), v.Id)
	key := s.ConnectionString()
	if err := s.Stop(); err != nil { // the last spans are sent
		t.Fatal(err)
	}
	judge(t, collected, key)
	if _, raw := collected.all(); strings.Contains(raw, "/"+v.Id) {
		t.Error("a span holds the path of a request")
	}
}

// showSecrets asks with an API key and with a token of playback, which no span may hold.
func showSecrets(t *testing.T, site, id string) {
	t.Helper()
	for _, path := range []string{"/api/v1/videos/" + id, "/v/" + id + "/~eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIiwiZXhwIjoxfQ.Abcdefghijklmnop_-1234/master.m3u8"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, site+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer key_q6h4zt2mwc5a_abcdefghijklmnopqrstuvwxyz")
		req.Header.Set("Cookie", "__Host-session=MTc2MzkyODQwMHxhYmNkZWZn")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, res.Status)
		}
	}
}

// measured holds that what the dashboard and the alerts name is exported by a running
// stack: the roles of this one have done all that there is to do.
func measured(t *testing.T, s *stack.Stack) {
	t.Helper()
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	names, err := observe.Names(root)
	if err != nil || len(names) < 40 {
		t.Fatalf("%d names, %v", len(names), err)
	}
	var pages []string
	for _, name := range append(s.Workers(), stack.Web) {
		if s.Pid(name) == 0 {
			continue // it was stopped
		}
		resp, err := http.Get(s.AdminURL(name) + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("metrics of %s: %s, %v", name, resp.Status, err)
		}
		pages = append(pages, string(page))
	}
	if missing := observe.Missing(names, pages...); len(missing) > 0 {
		t.Errorf("the dashboard or a rule asks for what no role exports: %v", missing)
	}
}

// messaging holds an attempt to OpenTelemetry's conventions for messaging, and to our own
// attributes.
func messaging(t *testing.T, s span, again bool) {
	t.Helper()
	for key, want := range map[string]string{"messaging.system": "azure_storage_queue", "messaging.operation.name": "process", "messaging.operation.type": "process"} {
		if got := s.attributes[key]; got != want {
			t.Errorf("an attempt on %s has %s = %q, want %q", s.step, key, got, want)
		}
	}
	for _, key := range []string{"messaging.destination.name", "messaging.message.id", "messaging.message.conversation_id", "workitem.id"} {
		if s.attributes[key] == "" {
			t.Errorf("an attempt on %s has no %s", s.step, key)
		}
	}
	if count, err := strconv.Atoi(s.attributes["messaging.message.dequeue_count"]); err != nil || count < 1 || again && count == 1 {
		t.Errorf("an attempt on %s, delivered again %v, has the dequeue count %q", s.step, again, s.attributes["messaging.message.dequeue_count"])
	}
}

func judge(t *testing.T, collected *sink, connection string) {
	t.Helper()
	spans, raw := collected.all()
	known := map[string]span{}
	for _, s := range spans {
		known[s.trace+s.id] = s
	}
	traces, steps, kinds := map[string]bool{}, map[string]int{}, map[string]int{}
	again, promised := 0, 0
	for _, s := range spans {
		if s.parent != "" {
			if _, found := known[s.trace+s.parent]; !found {
				t.Errorf("%s %q has a parent that was never sent", s.service, s.name)
			}
		}
		for _, link := range s.links {
			if _, found := known[link]; !found {
				t.Errorf("%s %q has a link to a span that was never sent", s.service, s.name)
			}
			again++
		}
		if s.kind == otlp.Span_SPAN_KIND_CONSUMER {
			steps[s.step]++
			messaging(t, s, len(s.links) > 0)
			if s.parent != "" {
				traces[s.trace] = true
			} else if len(s.links) == 0 {
				t.Errorf("attempt on %s belongs to nothing", s.step)
			}
		}
		if s.name == "promise again" { // upkeep thought that a message was lost: a slow machine
			promised++
		}
		word, _, _ := strings.Cut(s.name, " ")
		kinds[s.service+" "+word]++
	}
	t.Logf("%d spans; attempts by step %v, of which %d with a link; kinds %v", len(spans), steps, again, kinds)
	// A redelivered attempt has a trace of its own, and what it promises belongs there.
	if len(traces) == 0 || len(traces) > 1+again+promised {
		t.Errorf("first attempts are in %d traces, want one and at most one for each of %d redeliveries and %d new promises", len(traces), again, promised)
	}
	if again == 0 {
		t.Error("the worker was stopped, and nothing was delivered again")
	}
	for _, step := range []string{"probe", "encode", "audio", "finish", "index"} {
		if steps[step] == 0 {
			t.Errorf("no attempt on %s", step)
		}
	}
	for _, kind := range []string{"webrole POST", "webrole table", "workerrole ffmpeg", "workerrole ffprobe", "workerrole blob", "workerrole table", "workerrole queue"} {
		if kinds[kind] == 0 {
			t.Errorf("no span of %q among %v", kind, kinds)
		}
	}
	if secret := stacktest.Secret(raw); secret != "" {
		t.Errorf("spans hold a secret: %.12q…", secret)
	}
	_, account, _ := strings.Cut(connection, "AccountKey=")
	account, _, _ = strings.Cut(account, ";")
	for _, secret := range []string{account, "sig=", "A secret title"} {
		if secret != "" && strings.Contains(raw, secret) {
			t.Errorf("spans hold %s", fmt.Sprintf("%.12q…", secret))
		}
	}
}
