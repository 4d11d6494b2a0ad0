package browser_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/early/earlytest"
)

// TestPlaysWhileItUploads: storage takes 12 of 16 parts, and then nothing more. The
// page that sends plays the video, by keyboard, and leads to it, and another tab plays it.
func TestPlaysWhileItUploads(t *testing.T) {
	earlytest.NeedsEarlyGates(t)
	s := stacktest.Start(t, stack.Options{Workers: 1})
	tab := open(t)
	visit(t, tab, s.BaseURL()+"/upload")
	const some = 12
	eval[any](t, tab, stalling(some))
	if err := chromedp.Do(tab, chromedp.SetUploadFiles(`#file`, []string{padded(t, clip(t, 60), 64<<20)})); err != nil {
		t.Fatal(err)
	}
	until(t, tab, "the file can be sent", `!document.getElementById('send').disabled`)
	if err := chromedp.Do(tab, chromedp.Click(`#send`)); err != nil {
		t.Fatal(err)
	}
	until(t, tab, "the page leads to what can be watched", `document.querySelector('#files [data-phase=sending] a:not([hidden])')`)
	shoot(t, tab, "upload-playable")
	if sent := eval[int](t, tab, `window.taken`); sent > some {
		t.Errorf("%d parts were sent", sent)
	}
	const here, player = `#files [aria-expanded]`, `document.querySelector('#files iframe')?.contentDocument?.getElementById('player')`
	press(t, tab, here, kb.Enter)
	until(t, tab, "it plays in the row", player+`?.currentTime > 0.5`)
	shoot(t, tab, "upload-plays-here")
	inspect(t, tab, "upload-plays-here")
	press(t, tab, here, kb.Enter)
	until(t, tab, "the player is closed", `!document.querySelector('#files iframe') && document.querySelector('`+here+`').textContent === 'Play here'`)
	if phase := eval[string](t, tab, `document.querySelector('#files li').dataset.phase`); phase != "sending" {
		t.Errorf("the upload is %s", phase)
	}
	watch, closeWatch := chromedp.NewContext(tab)
	defer closeWatch()
	visit(t, watch, eval[string](t, tab, `document.querySelector('#files a').href`))
	until(t, watch, "it is still waiting for its upload", `document.getElementById('video').dataset.state === 'awaiting_upload' && document.querySelector('#waiting a')`)
	eval[any](t, watch, `const film = document.getElementById('player'); film.muted = true; film.play().catch(() => {}); null`)
	until(t, watch, "it plays", `document.getElementById('player').currentTime > 0.5`)
	shoot(t, watch, "upload-plays")
}
