package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/workflow"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// visibility of all queues: what a killed worker's messages wait.
const visibility = 5 * time.Second

// drill is a stack with a lab, and a user of it.
type drill struct {
	*stack.Stack
	bench *bench
	t     *testing.T
	user  *journey.User
	clip  []byte
	ctx   context.Context
}

// newDrill starts a stack with two workers that encode one chunk each.
func newDrill(t *testing.T) *drill {
	t.Helper()
	o := stacktest.Complete(t, stack.Options{Workers: 2, Env: []string{
		"WORKERROLE_POOLS=light=4,heavy=1", "CUTROOM_VISIBILITY=*=" + visibility.String(), "CUTROOM_RECONCILE_INTERVAL=2s", "CUTROOM_RECONCILE_GRACE=5s", stacktest.RealTime(t),
	}})
	b, err := open()
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.startStack(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	stacktest.StopAfter(t, s)
	user, err := journey.New(s.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(user.Close)
	ctx, cancel := context.WithTimeout(t.Context(), azuritetest.Patience(8*time.Minute))
	t.Cleanup(cancel)
	return &drill{Stack: s, bench: b, t: t, user: user, clip: clip(t), ctx: ctx}
}

// clip has chunks of 2, 4 and 6 s.
func clip(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "clip.mp4")
	cmd := exec.CommandContext(t.Context(), "ffmpeg", "-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=160x90:r=15:d=12",
		"-f", "lavfi", "-i", "anoisesrc=c=pink:a=0.2:r=48000:seed=1:d=12", "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac", path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make a clip: %v\n%s", err, out)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func (s *drill) upload(title string) string {
	s.t.Helper()
	v, err := s.user.Announce(s.ctx, client.NewVideo{Title: title})
	if err == nil {
		err = s.user.Put(s.ctx, v.Id, bytes.NewReader(s.clip), int64(len(s.clip)))
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return v.Id
}

func (s *drill) ready(id string) {
	s.t.Helper()
	if _, err := s.user.AwaitReady(s.ctx, id); err != nil {
		s.t.Fatal(err)
	}
}

// post asks the web role, as the board does.
func (s *drill) post(fault, body string) (status int, done client.LabDone, problem client.Problem) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.ctx, http.MethodPost, s.BaseURL()+"/api/v1/lab/"+fault, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	var into any = &problem
	if res.StatusCode == http.StatusAccepted {
		into = &done
	}
	if err := json.Unmarshal(text, into); err != nil {
		s.t.Fatalf("%s %s: %d %s", fault, body, res.StatusCode, text)
	}
	return res.StatusCode, done, problem
}

func (s *drill) do(fault, body string) client.LabDone {
	s.t.Helper()
	status, done, problem := s.post(fault, body)
	if status != http.StatusAccepted || done.Says == "" {
		s.t.Fatalf("%s %s: %d %+v %+v", fault, body, status, done, problem)
	}
	return done
}

func (s *drill) lab() client.Lab {
	s.t.Helper()
	res, err := s.user.API().GetLabWithResponse(s.ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	if res.JSON200 == nil {
		s.t.Fatalf("the lab: %d %s", res.StatusCode(), res.Body)
	}
	return *res.JSON200
}

func (s *drill) worker(name string) client.LabWorker {
	s.t.Helper()
	for _, w := range s.lab().Workers {
		if w.Name == name {
			return w
		}
	}
	return client.LabWorker{}
}

func (s *drill) awaitState(name string, state client.LabWorkerState) {
	s.t.Helper()
	stacktest.Eventually(s.t, fmt.Sprintf("%s is %s", name, state), func() bool { return s.worker(name).State == state })
}

func (s *drill) steps(id string) []client.Step {
	s.t.Helper()
	res, err := s.user.API().ListStepsWithResponse(s.ctx, id)
	if err != nil || res.JSON200 == nil {
		s.t.Fatalf("steps of %s: %v", id, err)
	}
	return res.JSON200.Items
}

// busy waits until a worker runs a heavy step of the video, and returns the worker.
func (s *drill) busy(id string) (name string) {
	s.t.Helper()
	stacktest.Eventually(s.t, "a worker encodes "+id, func() bool {
		for _, step := range s.steps(id) {
			if step.State != "running" || step.Step != workflow.StepEncode || step.Worker == nil {
				continue
			}
			for _, w := range s.lab().Workers {
				if w.Pid != nil && strings.HasSuffix(*step.Worker, "-"+strconv.Itoa(*w.Pid)) {
					name = w.Name
					return true
				}
			}
		}
		return false
	})
	return name
}

// counted is what a worker's metrics say of messages with one of the outcomes, over
// all queues whose name begins so.
func (s *drill) counted(name, queue string, outcomes ...string) (sum float64) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, azuritetest.Patience(5*time.Second))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.AdminURL(name)+"/metrics", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0 // it is frozen or starting
	}
	defer func() { _ = res.Body.Close() }()
	text, _ := io.ReadAll(res.Body)
	line := regexp.MustCompile(`(?m)^cutroom_messages_total\{outcome="(` + strings.Join(outcomes, "|") + `)",queue="` + queue + `[^"]*"\} (\S+)$`)
	for _, match := range line.FindAllSubmatch(text, -1) {
		n, err := strconv.ParseFloat(string(match[2]), 64)
		if err != nil {
			s.t.Fatal(err)
		}
		sum += n
	}
	return sum
}

type part struct {
	name string
	test func(*testing.T, *drill)
}

// furtherParts are those of other files.
var furtherParts []part

// TestBench does what the board has buttons for, on one stack: whatever is broken, every
// video becomes ready.
func TestBench(t *testing.T) {
	t.Parallel()
	drills(t, append([]part{{"bounds", bounds}, {"kill", killed}, {"workers", comesAndGoes}}, furtherParts...)...)
}

// TestBenchOfTroubles does the rest.
func TestBenchOfTroubles(t *testing.T) {
	t.Parallel()
	drills(t, part{"freeze", freezes}, part{"duplicate", twice}, part{"storage", disturbed}, part{"burst", bursts})
}

func drills(t *testing.T, parts ...part) {
	t.Helper()
	s := newDrill(t)
	for _, part := range parts {
		if !t.Run(part.name, func(t *testing.T) {
			inner := *s
			inner.t = t
			part.test(t, &inner)
		}) {
			return // the rest would tell of the same
		}
	}
}

// bounds: what the lab refuses, and how.
func bounds(t *testing.T, s *drill) {
	for _, bad := range []struct {
		fault, body string
		status      int
		code        string
	}{
		{"kill", `{"worker":"webrole-1"}`, 404, "worker_not_found"},
		{"kill", `{"worker":"workerrole-9"}`, 404, "worker_not_found"},
		{"kill", `{"worker":7}`, 400, "invalid_body"},
		{"kill", `{"pid":1}`, 400, "invalid_body"},
		{"kill", `{}{}`, 400, "invalid_body"},
		{"freeze", `{"worker":"workerrole-1","seconds":601}`, 400, "invalid_body"},
		{"freeze", `{"worker":"workerrole-1","seconds":0}`, 400, "invalid_body"},
		{"workers", `{"action":"explode"}`, 400, "invalid_body"},
		{"storage", `{"service":"disk","fault":"slow"}`, 400, "invalid_body"},
		{"storage", `{"service":"blob","fault":"fire"}`, 400, "invalid_body"},
		{"storage", `{"service":"blob","fault":"slow","share":1.5}`, 400, "invalid_body"},
		{"storage", `{"service":"blob","fault":"slow","seconds":121}`, 400, "invalid_body"},
		{"duplicate", `{"queue":"probe-poison"}`, 404, "queue_not_found"},
		{"burst", `{"videos":21}`, 400, "invalid_body"},
		{"nothing", `{}`, 404, "not_found"},
	} {
		if status, _, problem := s.post(bad.fault, bad.body); status != bad.status || problem.Code != bad.code {
			t.Errorf("%s %s: %d %s, want %d %s", bad.fault, bad.body, status, problem.Code, bad.status, bad.code)
		}
	}
	for _, token := range []string{"", "Bearer ", "Bearer wrong", s.bench.token} {
		req, err := http.NewRequestWithContext(s.ctx, http.MethodPost, "http://"+s.bench.listener.Addr().String()+base+"/kill", strings.NewReader(`{"worker":"workerrole-1"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", token)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized {
			t.Errorf("token %q: %d", token, res.StatusCode)
		}
	}
	if got := s.lab(); len(got.Workers) != 2 || len(got.Storage) != 0 || got.Burst != nil {
		t.Errorf("a bench that was not touched: %+v", got)
	}
}

// killed: the worker comes back as another process, and the video becomes ready.
func killed(t *testing.T, s *drill) {
	id := s.upload("Killed")
	victim := s.busy(id)
	before := s.Pid(victim)
	s.do("kill", fmt.Sprintf(`{"worker":%q}`, victim))
	stacktest.Eventually(t, victim+" is another process", func() bool {
		w := s.worker(victim)
		return w.State == client.LabRunning && w.Pid != nil && *w.Pid != before
	})
	s.ready(id)
}

// freezes: the lease of a frozen worker ends, another does its work, and what it
// does when it wakes is refused.
func freezes(t *testing.T, s *drill) {
	stale := func(name string) float64 {
		return s.counted(name, "", "stale_delete", "stale_renewal", "stale_release")
	}
	for try := 1; ; try++ {
		id := s.upload("Frozen")
		victim := s.busy(id)
		before, count := s.Pid(victim), stale(victim)
		began := time.Now()
		done := s.do("freeze", fmt.Sprintf(`{"worker":%q}`, victim))
		if w := s.worker(victim); w.State != client.LabFrozen || w.Until == nil || done.Until == nil {
			t.Fatalf("frozen: %+v %+v", w, done)
		}
		if length := done.Until.Sub(began); length < visibility*3/2-time.Second || length > visibility*3/2+10*time.Second {
			t.Errorf("frozen for %v, at a visibility of %v", length, visibility)
		}
		if status, _, problem := s.post("freeze", fmt.Sprintf(`{"worker":%q}`, victim)); status != http.StatusConflict || problem.Code != "state_conflict" {
			t.Errorf("frozen twice: %d %s", status, problem.Code)
		}
		s.ready(id)
		s.awaitState(victim, client.LabRunning)
		if time.Now().Before(*done.Until) {
			t.Errorf("it wakes %v early", time.Until(*done.Until))
		}
		if s.Pid(victim) != before {
			t.Errorf("%s is another process: it was not frozen but killed", victim)
		}
		others := false
		stacktest.Eventually(t, "every step is done", func() bool { // some come after ready
			for _, step := range s.steps(id) {
				others = others || step.Attempts > 1
				if step.State != "done" {
					return false
				}
			}
			return true
		})
		counted := azuritetest.Poll(10*time.Second, func() bool { return stale(victim) > count })
		if counted && others {
			return
		}
		// It had just committed what it was seen at, and held nothing.
		if try == 4 {
			t.Fatalf("no stale receipt was counted in %d tries", try)
		}
	}
}

// comesAndGoes: stop, stop and stay, bring back, add, remove.
func comesAndGoes(t *testing.T, s *drill) {
	first, third := stack.Worker(1), stack.Worker(3)
	before := s.Pid(first)
	s.do("stop", fmt.Sprintf(`{"worker":%q}`, first))
	stacktest.Eventually(t, first+" is another process", func() bool {
		w := s.worker(first)
		return w.State == client.LabRunning && w.Pid != nil && *w.Pid != before
	})
	id := s.upload("Comes and goes")
	s.do("stop", fmt.Sprintf(`{"worker":%q,"stay":true}`, first))
	s.awaitState(first, client.LabStopped)
	if status, _, problem := s.post("kill", fmt.Sprintf(`{"worker":%q}`, first)); status != http.StatusConflict {
		t.Errorf("a stopped worker is killed: %d %s", status, problem.Code)
	}
	if done := s.do("workers", `{"action":"add"}`); done.Worker != nil && *done.Worker != first {
		t.Errorf("added %s, want the one that was stopped", *done.Worker)
	}
	s.awaitState(first, client.LabRunning)
	stacktest.Eventually(t, "a third worker", func() bool {
		status, _, _ := s.post("workers", `{"action":"add"}`)
		return status == http.StatusAccepted // the last one may still be starting
	})
	s.awaitState(third, client.LabRunning)
	s.do("workers", `{"action":"remove"}`)
	s.awaitState(third, client.LabStopped)
	s.ready(id)
}

// twice: a message that waits is put there again, and when none waits, the next one
// is sent twice. The step is done once.
func twice(t *testing.T, s *drill) {
	s.do("stop", fmt.Sprintf(`{"worker":%q,"stay":true}`, stack.Worker(1)))
	s.do("stop", fmt.Sprintf(`{"worker":%q,"stay":true}`, stack.Worker(2)))
	s.awaitState(stack.Worker(1), client.LabStopped)
	s.awaitState(stack.Worker(2), client.LabStopped)
	id := s.upload("Twice")
	done := s.do("duplicate", `{"queue":"probe"}`)
	if done.Duplicated == nil || done.Duplicated.Subject != id || done.Duplicated.Step != workflow.StepProbe {
		t.Fatalf("duplicated %+v, want the probe of %s", done.Duplicated, id)
	}
	state, err := s.bench.queues.Queue(done.Duplicated.Queue).Length(s.ctx)
	if err != nil || state.Length != 2 {
		t.Errorf("the queue holds %d messages, %v", state.Length, err)
	}
	s.do("workers", `{"action":"add"}`)
	s.awaitState(stack.Worker(1), client.LabRunning)
	s.once(id, workflow.StepProbe)

	received := s.counted(stack.Worker(1), workflow.Probe, "received")
	if done := s.do("duplicate", `{"queue":"probe"}`); done.Duplicated != nil || done.Until == nil {
		t.Fatalf("no message waits, and the lab duplicated %+v", done.Duplicated)
	}
	next := s.upload("Twice again")
	stacktest.Eventually(t, "the next message is sent twice", func() bool {
		lab := s.lab()
		return len(lab.Duplicates) == 2 && lab.Duplicates[0].Subject == next && lab.DuplicateUntil == nil
	})
	s.once(next, workflow.StepProbe)
	if n := s.counted(stack.Worker(1), workflow.Probe, "received") - received; n < 2 {
		t.Errorf("%.0f deliveries of a message that was sent twice", n)
	}
	s.do("workers", `{"action":"add"}`)
	s.awaitState(stack.Worker(2), client.LabRunning)
}

// once waits until a video is ready and a step of it was delivered for good: no
// message is left, and one attempt has committed.
func (s *drill) once(id, step string) {
	s.t.Helper()
	s.ready(id)
	stacktest.Eventually(s.t, "no message of the step is left", func() bool {
		for _, spec := range s.bench.queues.Specs() {
			if spec.Base() != workflow.Probe {
				continue
			}
			state, err := s.bench.queues.Queue(spec.Name).Length(s.ctx)
			if err != nil {
				s.t.Fatal(err)
			}
			if state.Length > 0 {
				return false
			}
		}
		return true
	})
	found := slices.DeleteFunc(s.steps(id), func(st client.Step) bool { return st.Step != step })
	if len(found) != 1 || found[0].State != "done" || found[0].Attempts != 1 {
		s.t.Errorf("%s: %+v, want one row with one attempt", step, found)
	}
}

// disturbed: requests fail while the tables do, the other services are as they were,
// and all ends well.
func disturbed(t *testing.T, s *drill) {
	id := s.upload("Disturbed")
	s.do("storage", `{"service":"blob","fault":"slow","share":0.3,"seconds":10}`)
	s.do("storage", `{"service":"queue","fault":"lost_reply","share":0.3,"seconds":10}`)
	if got := s.lab().Storage; len(got) != 2 || got[0].Service != client.LabBlob || got[1].Fault != client.LabLostReply {
		t.Errorf("what disturbs the storage: %+v", got)
	}
	s.do("storage", `{"service":"table","fault":"busy","share":1,"seconds":60}`)
	_, err := s.user.Video(s.ctx, id)
	if journey.Code(err) != "storage_unavailable" {
		t.Errorf("reading a row of a busy table: %v, want storage_unavailable", err)
	}
	met := 0
	for _, f := range s.lab().Storage {
		if f.Service == client.LabTable {
			met = f.Met
		}
	}
	if met == 0 {
		t.Error("no request met the fault")
	}
	s.do("storage", `{"service":"table","fault":"none"}`)
	stacktest.Eventually(t, "rows can be read again", func() bool { _, err := s.user.Video(s.ctx, id); return err == nil })
	s.ready(id)
	stacktest.Eventually(t, "the faults are over", func() bool { return len(s.lab().Storage) == 0 })
}

// bursts: the videos of a burst are uploaded and become ready; one burst at a time.
func bursts(t *testing.T, s *drill) {
	if done := s.do("burst", `{"videos":3}`); done.Videos == nil || *done.Videos != 3 {
		t.Errorf("burst of %v, want 3", done.Videos)
	}
	if status, _, problem := s.post("burst", ``); status != http.StatusConflict || problem.Code != "state_conflict" {
		t.Errorf("two bursts at a time: %d %s", status, problem.Code)
	}
	var state client.LabBurstState
	stacktest.Eventually(t, "the burst is uploaded", func() bool {
		state = *s.lab().Burst
		return !state.Running
	})
	if len(state.Ids) != 3 || state.Failed != 0 {
		t.Fatalf("burst: %+v, error %v", state, state.Error)
	}
	for _, id := range state.Ids {
		s.ready(id)
		if v, err := s.user.Video(s.ctx, id); err != nil || v.Channel != burstChannel {
			t.Errorf("video of the burst: %+v, %v", v.Channel, err)
		}
	}
}
