package browser_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
)

// TestCancelRetryAndProcessAgain: the page of a video offers what its state allows, and
// does it, by keyboard.
func TestCancelRetryAndProcessAgain(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stack.Options{}) // without a worker, so that it waits
	user := newUser(t, s)
	v := upload(t, user, client.NewVideo{Title: "Perhaps"}, clip(t, 2))
	tab := open(t)
	visit(t, tab, s.BaseURL()+"/watch/"+v.Id)
	offers := func(actions string) {
		t.Helper()
		until(t, tab, "it offers "+actions, `[...document.querySelectorAll('[data-action]:not([hidden])')].map((b) => b.dataset.action).join(' ') === '`+actions+`'`)
	}
	offers("edit cancel delete")
	press(t, tab, `[data-action=cancel]`, kb.Enter)
	offers("edit retry delete")
	inspect(t, tab, "cancelled")
	press(t, tab, `[data-action=retry]`, kb.Enter)
	offers("edit cancel delete")
	if _, err := s.AddWorker(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, tab, "it is ready", `document.querySelector('#video[data-state=ready]')`)
	offers("edit reprocess delete")
	press(t, tab, `[data-action=reprocess]`, kb.Enter)
	stacktest.Eventually(t, "a second generation", func() bool {
		now, err := user.Video(t.Context(), v.Id)
		return err == nil && now.State == "ready" && slices.ContainsFunc(stepsOf(t, user, v.Id), func(s client.Step) bool { return s.Generation == 2 })
	})
	offers("edit reprocess delete")
}

// brokenLoudness is in ffmpeg's place: as long as its file is there, nothing measures how
// loud a video is.
const brokenLoudness = `#!/bin/sh
case "$*" in *ebur128*) if [ -e "$0.broken" ]; then echo broken >&2; exit 1; fi ;; esac
exec ffmpeg "$@"
`

// TestRetryAStepThatFailedAlone: a step after ready that is broken leaves the video ready.
// Its page offers to try again, by keyboard, and what is mended is done.
func TestRetryAStepThatFailedAlone(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "ffmpeg")
	if err := os.WriteFile(program, []byte(brokenLoudness), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	if err := os.WriteFile(program+".broken", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// The sandbox would not let a shell start another program.
	s := stacktest.Start(t, stack.Options{Workers: 1, Env: []string{"FFMPEG_PATH=" + program, "WORKERROLE_SANDBOX=off"}})
	user := newUser(t, s)
	v := upload(t, user, client.NewVideo{Title: "How loud?"}, clip(t, 2))
	loudness := func() (state string) {
		for _, step := range stepsOf(t, user, v.Id) {
			if step.Step == "loudness" {
				state = string(step.State)
			}
		}
		return state
	}
	tab := open(t)
	visit(t, tab, s.BaseURL()+"/watch/"+v.Id)
	offers := func(actions string) {
		t.Helper()
		until(t, tab, "it offers "+actions, `document.querySelector('#video[data-state=ready]') && [...document.querySelectorAll('[data-action]:not([hidden])')].map((b) => b.dataset.action).join(' ') === '`+actions+`'`)
	}
	offers("edit retry reprocess delete")
	if got := loudness(); got != "failed" {
		t.Errorf("the step is %s, want failed", got)
	}
	inspect(t, tab, "failed-alone")
	if err := os.Remove(program + ".broken"); err != nil {
		t.Fatal(err)
	}
	press(t, tab, `[data-action=retry]`, kb.Enter)
	stacktest.Eventually(t, "the step is done", func() bool { return loudness() == "done" })
	offers("edit reprocess delete")
}
