package soak

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// video makes what table "videos" says about a video of two chunks without sound.
func videoAt(state string, steps map[string]row) map[string]*truth {
	t := &truth{meta: row{"RowKey": "META"}, doc: metaDoc{State: state, Generation: 1}, steps: steps,
		plans: map[string]planDoc{"PLAN:00001": {Chunks: make([]struct{}, 2)}}}
	return map[string]*truth{"v": t}
}

const (
	first  = "STEP:00001:encode:00000"
	second = "STEP:00001:encode:00001"
	finish = "STEP:00001:finish:00000"
)

func stepAt(state, attempt string, attempts int) row {
	r := row{"State": state, "Attempt": attempt, "Attempts": float64(attempts), "Worker": "soak-0"}
	if state == "done" {
		r["FinishedAt"] = time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano)
	}
	return r
}

// The watcher finds what must never happen, and nothing in a life as it should be.
func TestWatcher(t *testing.T) {
	t.Parallel()
	done := stepAt("done", "a", 1)
	good := []map[string]*truth{
		videoAt("processing", map[string]row{first: stepAt("running", "a", 1)}),
		videoAt("processing", map[string]row{first: done, second: stepAt("running", "b", 1)}),
		videoAt("processing", map[string]row{first: done, second: stepAt("running", "c", 2)}),
		videoAt("processing", map[string]row{first: done, second: stepAt("done", "c", 2), finish: stepAt("queued", "", 0)}),
	}
	for name, test := range map[string]struct {
		looks []map[string]*truth
		want  string
	}{
		"good":            {good, ""},
		"committed twice": {append(good[:2:2], videoAt("processing", map[string]row{first: stepAt("done", "z", 1)})), "was committed twice"},
		"undone":          {append(good[:2:2], videoAt("processing", map[string]row{first: stepAt("queued", "a", 1)})), "was done and is queued"},
		"not ready again": {[]map[string]*truth{videoAt("ready", nil), videoAt("processing", nil)}, "was ready and is processing"},
		"finish too soon": {[]map[string]*truth{
			videoAt("processing", map[string]row{first: done, finish: stepAt("queued", "", 0)}),
			videoAt("processing", map[string]row{first: done, finish: stepAt("queued", "", 0)}),
		}, "was promised while 1 parts were not done"},
		"finish anew, before it was taken": {[]map[string]*truth{
			videoAt("processing", map[string]row{finish: stepAt("running", "a", 1)}),
			videoAt("processing", map[string]row{finish: stepAt("queued", "", 0)}),
		}, "was promised anew"},
		"finish anew, and taken": {[]map[string]*truth{
			videoAt("processing", map[string]row{finish: stepAt("running", "a", 1)}),
			videoAt("processing", map[string]row{finish: stepAt("running", "b", 1)}),
		}, "was promised anew"},
		"a first claim that a cancel undid": {[]map[string]*truth{
			videoAt("processing", map[string]row{first: stepAt("running", "a", 1)}),
			videoAt("processing", map[string]row{first: stepAt("running", "b", 1)}),
		}, ""},
		"a second claim counted as the first": {[]map[string]*truth{
			videoAt("processing", map[string]row{first: stepAt("running", "a", 2)}),
			videoAt("processing", map[string]row{first: stepAt("running", "b", 1)}),
		}, "was promised anew"},
		"an id that comes back": {[]map[string]*truth{
			videoAt("processing", map[string]row{first: done}), {}, videoAt("processing", map[string]row{first: stepAt("done", "z", 1)}),
		}, ""},
	} {
		w := newWatcher(storage{})
		for n, look := range test.looks {
			if n == 1 {
				w.killed("soak-0")
			}
			w.look(look)
		}
		got := strings.Join(w.found(), "\n")
		if test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%s: found %q, want %q", name, got, test.want)
		}
		if name == "good" {
			if len(w.recoveries) != 1 || w.recoveries[0] <= 0 {
				t.Errorf("recoveries %v, want the one of the step that was running", w.recoveries)
			}
			if steps, again := w.redone(); steps["encode"] != 2 || again["encode"] != 1 {
				t.Errorf("steps %v, again %v", steps, again)
			}
		}
	}
}

// A video must be what its history of answers says.
func TestJudge(t *testing.T) {
	t.Parallel()
	good, bad := &clip{frames: 1}, &clip{code: "corrupt_media"}
	at := func(state string) *truth { return videoAt(state, nil)["v"] }
	for _, test := range []struct {
		h    history
		t    *truth
		fine bool
	}{
		{history{id: "v", clip: good, uploaded: true}, at("ready"), true},
		{history{id: "v", clip: good, uploaded: true}, at("processing"), false},
		{history{id: "v", clip: good, uploaded: true}, at("failed"), false},
		{history{id: "v", clip: good, uploaded: true}, nil, false},
		{history{id: "v", clip: good, uploaded: true, cancelled: true}, at("cancelled"), true},
		{history{id: "v", clip: good, uploaded: true, cancelled: true}, at("ready"), false},
		{history{id: "v", clip: good, uploaded: true, deleted: true}, nil, true},
		{history{id: "v", clip: good, uploaded: true, deleted: true}, at("deleting"), false},
		{history{id: "v", clip: bad, uploaded: true}, at("ready"), false},
		{history{id: "v", clip: good}, at("awaiting_upload"), true},
	} {
		if got := test.h.judge(test.t); (got == "") != test.fine {
			t.Errorf("%+v: %q, want fine: %v", test.h, got, test.fine)
		}
	}
}

// A page of 25 findings has something of each kind.
func TestFindingsOfEachKindAreOnThePage(t *testing.T) {
	t.Parallel()
	var list []string
	for i := range 40 {
		list = append(list, fmt.Sprint("in flight: ", i))
	}
	r := &Report{}
	r.add("not at rest", append(list, "promise a", "promise b", "running c"))
	for _, want := range []string{"not at rest: in flight: 0", "not at rest: promise a", "not at rest: promise b", "not at rest: running c", "not at rest: and 18 more"} {
		if !slices.Contains(r.Findings, want) {
			t.Errorf("no %q in %v", want, r.Findings)
		}
	}
}
