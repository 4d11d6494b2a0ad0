package soak

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cutroom/cutroom/e2e/load"
	"github.com/cutroom/cutroom/shared/workflow"
)

// watcher reads the rows of all videos again and again, from outside, and
// remembers what must never happen. It also sees when steps are taken up and
// committed, which is what recovery is measured with.
type watcher struct {
	storage storage

	mu         sync.Mutex
	violations []string
	steps      map[stepID]seenStep
	videos     map[string]metaDoc
	beforeEnd  map[stepID]bool // steps that were done while their upload went on
	early      map[string]bool // finish rows that were there before all parts were, at the last look
	waiting    []interrupted
	recoveries []time.Duration
	forgone    int // interrupted steps that were no longer wanted
	looks      int
}

// stepID is a step of a video. An id that comes back after a delete begins anew.
type stepID struct{ video, key string }

type seenStep struct {
	step, state, mark, worker string
	attempts                  int
	attempt                   string // the latest
	number                    int    // of it, from 1
}

// interrupted is a step that a killed worker was at.
type interrupted struct {
	stepID
	at time.Time
}

func newWatcher(s storage) *watcher {
	return &watcher{storage: s, steps: map[stepID]seenStep{}, videos: map[string]metaDoc{}, early: map[string]bool{}, beforeEnd: map[stepID]bool{}}
}

// watchEvery is the pause between two looks. On a slow machine it is longer, or
// looking would be what keeps the storage busy.
const watchEvery = 400 * time.Millisecond

func (w *watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		if truths, err := w.storage.truths(ctx); err == nil {
			w.look(truths)
		}
		load.Pause(ctx, max(watchEvery, 2*time.Since(began)))
	}
}

func (w *watcher) violation(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(w.violations, text) {
		w.violations = append(w.violations, text)
	}
}

// found is what was wrong so far.
func (w *watcher) found() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.violations)
}

func (w *watcher) look(truths map[string]*truth) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks++
	early := map[string]bool{}
	for id := range w.videos {
		if t := truths[id]; t == nil || t.meta == nil { // gone: should the id come back, all begins anew
			delete(w.videos, id)
			for me, s := range w.steps {
				if me.video == id {
					s.mark, s.state, s.attempt, s.number = "", "", "", 0
					w.steps[me] = s
				}
			}
		}
	}
	for id, t := range truths {
		if t.meta == nil {
			continue
		}
		w.video(id, t)
		for key, r := range t.steps {
			w.step(id, t, key, r)
			if t.doc.State == "awaiting_upload" && r.text("State") == "done" {
				w.beforeEnd[stepID{id, key}] = true
			}
		}
		w.fanIn(id, t, early)
	}
	w.early = early
	w.waiting = slices.DeleteFunc(w.waiting, func(i interrupted) bool {
		t := truths[i.video]
		if t == nil || t.meta == nil || t.steps[i.key] == nil || t.doc.State != "uploaded" && t.doc.State != "processing" && t.steps[i.key].text("State") != "done" {
			w.forgone++
			return true
		}
		if t.steps[i.key].text("State") != "done" {
			return false
		}
		if at, err := time.Parse(time.RFC3339Nano, t.steps[i.key].text("FinishedAt")); err == nil && at.After(i.at) {
			w.recoveries = append(w.recoveries, at.Sub(i.at))
		}
		return true
	})
}

func (w *watcher) video(id string, t *truth) {
	before, known := w.videos[id]
	now := t.doc
	w.videos[id] = now
	if !known || now.Generation < before.Generation && before.State == "deleting" {
		return
	}
	switch {
	case before.State == "deleting" && now.State != "deleting" && now.State != "awaiting_upload" && now.State != "uploaded":
		w.violation("video %s was being deleted and is %s", id, now.State)
	case before.State == "ready" && now.State != "ready" && now.State != "deleting" && now.Generation == before.Generation:
		w.violation("video %s was ready and is %s", id, now.State)
	case before.Serving > now.Serving && before.State != "deleting":
		w.violation("video %s played generation %d and plays %d", id, before.Serving, now.Serving)
	case before.Playable && !now.Playable && before.State != "deleting" && now.State != "deleting":
		w.violation("video %s was playable and is not", id)
	}
}

func (w *watcher) step(id string, t *truth, key string, r row) {
	me := stepID{id, key}
	before := w.steps[me]
	now := seenStep{step: stepName(key), state: r.text("State"), worker: r.text("Worker"), attempts: max(r.number("Attempts"), before.attempts)}
	if now.state == "done" {
		now.mark = r.text("Attempt") + " at " + r.text("FinishedAt")
	}
	if before.mark != "" && t.doc.State != "deleting" && w.videos[id].State != "awaiting_upload" {
		switch now.mark {
		case before.mark:
		case "":
			w.violation("%s of %s was done and is %s", key, id, now.state)
			now.mark = before.mark
		default:
			w.violation("%s of %s was committed twice: by %s, by %s", key, id, before.mark, now.mark)
		}
	}
	now.attempt, now.number = before.attempt, before.number
	if attempt, number := r.text("Attempt"), r.number("Attempts"); strings.HasPrefix(key, "STEP:") {
		// Every claim counts on. A row that was written anew counts from the start. The row
		// of finish comes with its promise. Other rows come with their first claim, and it
		// takes the row back when the video was cancelled meanwhile: after a retry the
		// step has a first attempt again.
		again := number == before.number && attempt != "" && before.attempt != "" && attempt != before.attempt
		if number < before.number || again && (now.step == workflow.StepFinish || number > 1) {
			w.violation("%s of %s was promised anew: attempt %d comes after attempt %d", key, id, number, before.number)
		}
		if attempt != "" {
			now.attempt = attempt
		}
		now.number = number
	}
	w.steps[me] = now
}

// fanIn checks that finish is promised when all parts are committed, and not
// before. Rows are read in pages, so only what is seen twice in a row counts.
func (w *watcher) fanIn(id string, t *truth, early map[string]bool) {
	for key, plan := range t.plans {
		generation := strings.TrimPrefix(key, "PLAN:")
		if t.steps["STEP:"+generation+":finish:00000"] == nil {
			continue
		}
		missing := 0
		for n := range plan.Chunks {
			if r := t.steps[fmt.Sprintf("STEP:%s:encode:%05d", generation, n)]; r == nil || r.text("State") != "done" {
				missing++
			}
		}
		sound := !plan.HasAudio
		for key, r := range t.steps { // one row, or one for each portion
			if strings.HasPrefix(key, "STEP:"+generation+":audio:") {
				if sound = true; r.text("State") != "done" {
					missing++
				}
			}
		}
		if !sound {
			missing++
		}
		if missing == 0 {
			continue
		}
		mark := id + " " + key
		early[mark] = true
		if w.early[mark] && t.doc.State != "deleting" {
			w.violation("finish of %s, generation %s, was promised while %d parts were not done", id, generation, missing)
		}
	}
}

// killed remembers the steps that a worker was at when it was killed.
func (w *watcher) killed(worker string) {
	at := time.Now()
	for _, id := range w.atWork(worker) {
		w.mu.Lock()
		w.waiting = append(w.waiting, interrupted{id, at})
		w.mu.Unlock()
	}
}

// atWork are the steps that a worker has claimed and not finished.
func (w *watcher) atWork(worker string) (ids []stepID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, s := range w.steps {
		if s.state == "running" && s.worker == worker {
			ids = append(ids, id)
		}
	}
	return ids
}

// progress reports whether any of these steps is still to be done, and whether
// all are done.
func (w *watcher) progress(ids []stepID) (open, done bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	done = true
	for _, id := range ids {
		if w.steps[id].state == "done" {
			continue
		}
		done = false
		state := w.videos[id.video].State
		open = open || state == "uploaded" || state == "processing" || strings.HasPrefix(id.key, "CLIP") && state == "ready"
	}
	return open, done
}

// unfinished is how many videos are being made.
func (w *watcher) unfinished() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range w.videos {
		if v.State == "uploaded" || v.State == "processing" {
			n++
		}
	}
	return n
}

// redone is how many attempts steps took beyond the first, and how many steps
// there were, by step.
func (w *watcher) redone() (steps, again map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	steps, again = map[string]int{}, map[string]int{}
	for _, s := range w.steps {
		steps[s.step]++
		again[s.step] += max(0, s.attempts-1)
	}
	return steps, again
}

func stepName(key string) string {
	parts := strings.Split(key, ":")
	if parts[0] == "CLIP" || len(parts) < 3 {
		return "clip"
	}
	return parts[2]
}
