package browser_test

import (
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
