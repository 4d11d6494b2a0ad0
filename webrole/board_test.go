package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/workers"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/board"
)

// looker reads a stream of events, and keeps the newest state.
type looker struct {
	t    *testing.T
	body io.ReadCloser
	stop context.CancelFunc

	mu      sync.Mutex
	states  int
	queues  map[string]api.BoardLane
	specs   map[string]api.BoardQueue
	workers map[string]api.BoardWorker
	videos  map[string]string
	poison  []api.Poison
	samples int
	scale   api.Scale
	ended   error // nil while the stream is open
}

// look opens a stream on a listener, and reads until its end.
func (s *server) look(base string, headers ...string) *looker {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	s.t.Cleanup(cancel)
	resp, err := s.client.Do(s.request(http.MethodGet, base+"/api/v1/ops/events", nil, headers...).WithContext(ctx))
	if err != nil {
		s.t.Fatal(err)
	}
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || kind != "text/event-stream" || resp.Header.Get("Cache-Control") != "no-store" {
		s.t.Fatalf("%d %q %v", resp.StatusCode, kind, resp.Header)
	}
	l := &looker{
		t: s.t, body: resp.Body, stop: cancel, queues: map[string]api.BoardLane{}, specs: map[string]api.BoardQueue{},
		workers: map[string]api.BoardWorker{}, videos: map[string]string{},
	}
	go l.read()
	return l
}

func (l *looker) read() {
	defer l.body.Close() //nolint:errcheck // reading only
	lines := bufio.NewReader(l.body)
	kind := ""
	for {
		line, err := lines.ReadString('\n')
		l.mu.Lock()
		if err != nil {
			l.ended = err
			l.mu.Unlock()
			return
		}
		if value, found := strings.CutPrefix(line, "event: "); found {
			kind = strings.TrimSpace(value)
		}
		if data, found := strings.CutPrefix(line, "data: "); found {
			var e api.BoardEvent
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				l.t.Errorf("%q: %v", data, err)
			}
			if kind != "snapshot" {
				l.t.Errorf("an event of kind %q", kind)
			}
			l.take(e)
		}
		l.mu.Unlock()
	}
}

// take replaces what was shown before.
func (l *looker) take(e api.BoardEvent) {
	l.scale = e.Scale
	l.states++
	clear(l.queues)
	clear(l.specs)
	clear(l.workers)
	for _, q := range e.Queues {
		l.specs[q.Name] = q
		for _, lane := range q.Lanes {
			l.queues[lane.Name] = lane
		}
	}
	for _, w := range e.Workers {
		l.workers[w.Name] = w
	}
	for _, v := range e.Videos {
		l.videos[v.Id] = v.Title
	}
	l.poison, l.samples = e.Poison, len(e.Samples)
}

// sees waits until the looker has seen what check wants.
func (l *looker) sees(what string, check func(*looker) bool) {
	l.t.Helper()
	azuritetest.Eventually(l.t, 20*time.Second, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.ended != nil {
			return fmt.Errorf("%s: the stream ended: %w", what, l.ended)
		}
		if !check(l) {
			return fmt.Errorf("%s: not seen in %d states: %+v %+v", what, l.states, l.queues["probe"], l.workers)
		}
		return nil
	})
}

// TestBoardShowsAMessage: what is told of a message from its sending to its end.
func TestBoardShowsAMessage(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	s := startOps(t, nil)
	l := s.look(s.public)
	l.sees("a snapshot", func(l *looker) bool { return l.states > 0 && len(l.specs) == len(workflow.Specs) })

	const title = `<img src=x onerror=alert(1)>`
	v := s.create(map[string]any{"title": title})
	s.call(http.MethodPut, "/videos/"+v.Id+"/content", movie(100)).want(t, http.StatusAccepted, "")
	l.sees("the message", func(l *looker) bool {
		m := l.queues["probe"].Messages
		return len(m) == 1 && m[0].DequeueCount == 0 && m[0].Step == workflow.StepProbe && m[0].Video == v.Id && m[0].Row == "STEP:00001:probe:00000" && *m[0].Index == 0
	})
	l.sees("the title", func(l *looker) bool { return l.videos[v.Id] == title })

	leases, err := s.queues.Queue(workflow.Probe).Receive(t.Context(), 1)
	if err != nil || len(leases) != 1 {
		t.Fatal(len(leases), err)
	}
	item, err := leases[0].Item()
	if err != nil {
		t.Fatal(err)
	}
	register := workers.New(s.account)
	w := workers.Worker{Name: "w", StartedAt: time.Now().UTC(), SeenAt: time.Now().UTC(), Pools: map[string]int{"light": 2}, Queues: map[string]workers.Count{}, Busy: []azq.Running{{
		Delivery: leases[0].Delivery, Queue: workflow.Probe, Kind: item.Kind, Subject: item.Subject, Deadline: leases[0].Deadline(),
		Item: item.ID, Renewals: 3,
	}}}
	beat := func() {
		t.Helper()
		w.SeenAt = time.Now().UTC()
		if err := register.Beat(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	beat()
	l.sees("the worker that holds it", func(l *looker) bool {
		tasks := l.workers["w"].Tasks
		return len(tasks) == 1 && tasks[0].Id == leases[0].MessageID && tasks[0].Row == "STEP:00001:probe:00000" && tasks[0].Renewals == 3 &&
			tasks[0].VisibilitySeconds == 60 && len(l.queues["probe"].Messages) == 0 && l.queues["probe"].Length == 1
	})

	// The worker dies: its row stays as it is, and the message is back.
	if err := leases[0].Release(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	l.sees("the message again, and nowhere else", func(l *looker) bool {
		m := l.queues["probe"].Messages
		return len(m) == 1 && m[0].DequeueCount == 1 && len(l.workers["w"].Tasks) == 0
	})
	l.sees("that the worker is silent", func(l *looker) bool { return l.workers["w"].Silent })

	again, err := s.queues.Queue(workflow.Probe).Receive(t.Context(), 1)
	if err != nil || len(again) != 1 {
		t.Fatal(len(again), err)
	}
	if err := again[0].Poison(t.Context(), "tried too often", nil); err != nil {
		t.Fatal(err)
	}
	w.Busy, w.Queues = nil, map[string]workers.Count{workflow.Probe: {Done: 4}}
	beat()
	l.sees("poison", func(l *looker) bool {
		return len(l.poison) == 1 && l.poison[0].Reason == "tried too often" && l.queues["probe"].Length == 0
	})
	l.sees("a sample", func(l *looker) bool { return l.samples > 0 })

	s.call(http.MethodPost, "/ops/queues/probe/pause", nil).want(t, http.StatusNoContent, "")
	l.sees("the pause", func(l *looker) bool { return l.specs["probe"].Paused })
	if err := register.Leave(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}
	l.sees("that the worker left", func(l *looker) bool { return len(l.workers) == 0 })
	// Where it was before makes no difference.
	s.look(s.admin, "Last-Event-ID", "1-3").sees("a snapshot", func(l *looker) bool { return l.states > 0 && len(l.specs) == len(workflow.Specs) })
}

// TestBoardSaysThatABreakerIsOpen: which dependency a worker does not trust, and why, in
// the stream that the picture is drawn from and in the tables, for as long as it lasts.
func TestBoardSaysThatABreakerIsOpen(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	s := startOps(t, nil)
	l := s.look(s.public)
	register := workers.New(s.account)
	beat := func(w workers.Worker) {
		t.Helper()
		w.SeenAt = time.Now().Add(time.Minute).UTC() // not silent while we look: the tables then say only that
		if err := register.Beat(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	tables := func(want, never string) { // they are made of what the looker sees
		t.Helper()
		if text := string(s.get("/board/tables").body); !strings.Contains(text, want) || strings.Contains(text, never) {
			t.Errorf("the tables: want %q and not %q: %s", want, never, text)
		}
	}
	const reason, state, well = "503 <ServerBusy>", "<td>trouble with blob: 503 &lt;ServerBusy&gt;</td>", "<td>working</td>"
	since, trouble := time.Now().UTC().Truncate(time.Second), "trouble with blob: "+reason
	beat(workers.Worker{Name: "sick", Trouble: trouble, Breakers: []azq.BreakerStats{{
		Dependency: "blob", State: "open", Since: since, Reason: reason,
	}}})
	l.sees("the open breaker", func(l *looker) bool {
		w := l.workers["sick"]
		return cmp.Equal(w.Breakers, []api.BoardBreaker{{
			Dependency: "blob", State: "open", Since: since, Reason: reason,
		}}) && w.Trouble == trouble
	})
	tables(state, well)

	beat(workers.Worker{Name: "sick"})
	l.sees("that it is closed", func(l *looker) bool {
		w, there := l.workers["sick"]
		return there && len(w.Breakers) == 0 && w.Trouble == ""
	})
	tables(well, "trouble with")
}

// TestBoardHasOneReader: storage is asked within the budget, as often for twenty
// lookers as for one, and not at all for none.
func TestBoardHasOneReader(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	tap := azuritetest.NewTap(t)
	s := startOps(t, map[string]string{"AZURE_STORAGE_CONNECTION_STRING": tap.ConnectionString()})
	for _, spec := range s.queues.Specs() { // every lane is busy: the dearest board
		item, err := azq.NewItem(spec.Kinds[0], string(engine.NewID()), spec.Name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.queues.SendItem(t.Context(), spec.Name, item, 0); err != nil {
			t.Fatal(err)
		}
	}
	// measure returns the requests of some seconds, and the most that the budget allows in them.
	measure := func() (requests, most int64) {
		before, began := tap.Requests(), time.Now()
		time.Sleep(5 * time.Second) // what is measured, not what is waited for
		return tap.Requests() - before, int64(60 + board.Budget*(time.Since(began).Seconds()+1))
	}
	if n, _ := measure(); n != 0 {
		t.Errorf("%d requests before the first look", n)
	}
	lookers := []*looker{s.look(s.public)}
	lookers[0].sees("a snapshot", func(l *looker) bool { return l.states > 0 })
	one, most := measure()
	if one == 0 || one > most {
		t.Errorf("%d requests for one looker, want some and at most %d", one, most)
	}
	for range 19 {
		lookers = append(lookers, s.look(s.public))
	}
	for _, l := range lookers {
		l.sees("a snapshot", func(l *looker) bool { return l.states > 0 })
	}
	twenty, most := measure()
	t.Logf("%d requests for one looker, %d for twenty", one, twenty)
	if twenty > most { // a reader for each would make twenty times as many
		t.Errorf("%d requests for twenty lookers, want at most %d", twenty, most)
	}
	metrics := string(s.send(s.request(http.MethodGet, s.admin+"/metrics", nil)).body)
	if !strings.Contains(metrics, "\ncutroom_board_watchers 20\n") || strings.Contains(metrics, "\ncutroom_board_storage_requests_total 0\n") {
		t.Errorf("metrics: %s", metrics)
	}
	for _, l := range lookers {
		l.stop()
	}
	azuritetest.Eventually(t, 10*time.Second, func() error {
		if metrics := string(s.send(s.request(http.MethodGet, s.admin+"/metrics", nil)).body); !strings.Contains(metrics, "\ncutroom_board_watchers 0\n") {
			return errors.New("the board is looked at")
		}
		return nil
	})
	measure() // requests that were under way
	if n, _ := measure(); n != 0 {
		t.Errorf("%d requests after the last had gone", n)
	}
}

// TestDrainEndsStreams: a stream has no end of its own, and a role that stops does not
// wait for it. That serve returns without an error is looked at by start.
func TestDrainEndsStreams(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	s := startOps(t, map[string]string{"WEBROLE_DRAIN_TIMEOUT": "20s"})
	lookers := []*looker{s.look(s.public), s.look(s.admin)}
	for _, l := range lookers {
		l.sees("a snapshot", func(l *looker) bool { return l.states > 0 })
	}
	begin := time.Now()
	s.stop()
	for _, l := range lookers {
		azuritetest.Eventually(t, 10*time.Second, func() error {
			l.mu.Lock()
			defer l.mu.Unlock()
			if !errors.Is(l.ended, io.EOF) {
				return fmt.Errorf("the stream is open: %v", l.ended)
			}
			return nil
		})
	}
	t.Logf("ended after %v", time.Since(begin))
}

// TestStreamOutlivesTheDeadline: the API's 10 s are not those of a stream, which says
// that it lives.
func TestStreamOutlivesTheDeadline(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	s := startOps(t, nil)
	l := s.look(s.public)
	l.sees("a snapshot", func(l *looker) bool { return l.states > 0 })
	time.Sleep(promised + slack)
	v := s.create(map[string]any{})
	s.call(http.MethodPut, "/videos/"+v.Id+"/content", movie(100)).want(t, http.StatusAccepted, "")
	l.sees("a message sent after 12 s", func(l *looker) bool { return len(l.queues["probe"].Messages) == 1 })
}

// pipes is a listener whose connections hold nothing back: what is not read is not
// written.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// TestWhoDoesNotReadIsCutOff: a client that stopped reading holds a stream for 10 s
// and no longer.
func TestWhoDoesNotReadIsCutOff(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	s := startOps(t, nil)
	p := pipes{make(chan net.Conn), make(chan struct{})}
	defer close(p.done)
	server := &http.Server{Handler: s.role.servers[0].Handler, ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(p) }()
	ours, theirs := net.Pipe()
	defer func() { _ = ours.Close() }()
	p.conns <- theirs
	if _, err := io.WriteString(ours, "GET /api/v1/ops/events HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := ours.Read(make([]byte, 1)); err != nil { // the head is there; the snapshot does not fit
		t.Fatal(err)
	}
	looks := func(n int) error {
		metrics := string(s.send(s.request(http.MethodGet, s.admin+"/metrics", nil)).body)
		if !strings.Contains(metrics, fmt.Sprintf("\ncutroom_board_watchers %d\n", n)) {
			return fmt.Errorf("not %d look", n)
		}
		return nil
	}
	if err := looks(1); err != nil {
		t.Fatal(err)
	}
	azuritetest.Eventually(t, 20*time.Second, func() error { return looks(0) })
}

// TestTablesWithoutScript: what the board shows, for browsers without script.
func TestTablesWithoutScript(t *testing.T) {
	t.Parallel()
	s := startOps(t, nil)
	const name = `<script>alert(1)</script>`
	if err := workers.New(s.account).Beat(t.Context(), workers.Worker{Name: name, SeenAt: time.Now().UTC()}); err != nil {
		t.Fatal(err)
	}
	v := s.create(map[string]any{})
	s.call(http.MethodPut, "/videos/"+v.Id+"/content", movie(100)).want(t, http.StatusAccepted, "")
	page := s.get("/board/tables")
	text := string(page.body)
	if page.StatusCode != http.StatusOK || strings.Contains(text, name) || !strings.Contains(text, "&lt;script&gt;") || !strings.Contains(text, `<a href="/watch/`+v.Id) {
		t.Errorf("%d %s", page.StatusCode, text)
	}
	if !strings.Contains(string(s.get("/board").body), `href="/board/tables"`) {
		t.Error("the board does not lead to its tables")
	}
	remote := start(t, map[string]string{"WEBROLE_ADDR": "0.0.0.0:0", "WEBROLE_TOKEN": "a-token-of-enough-letters"})
	for _, path := range []string{"/board/tables", "/api/v1/ops/events"} {
		remote.get(path, "Authorization", "Bearer a-token-of-enough-letters").want(t, http.StatusNotFound, "not_found")
	}
}

func init() {
	parts = append(parts, part{
		routes: `operators GET /board
operators GET /board/tables
operators GET /api/v1/ops/events
operators GET /api/v1/ops/scale
`,
	})
}
