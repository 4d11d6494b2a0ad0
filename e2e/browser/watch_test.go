package browser_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
)

// TestWatchPage does by keyboard what the page of a video offers: playing, the bar of its
// parts, changing its words while somebody else does, and thinking again about a
// delete.
func TestWatchPage(t *testing.T) {
	s := stacktest.Start(t, stack.Options{Workers: 1})
	user, err := journey.New(s.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(user.Close)
	v := uploadedAndReady(t, user, client.NewVideo{Title: "As it was"}, clip(t, 20))
	tab := open(t)
	if err := chromedp.Do(tab, chromedp.Navigate(s.BaseURL()+"/watch/"+v.Id)); err != nil {
		t.Fatal(err)
	}
	playable(t, tab, "watch")

	t.Run("bar", func(t *testing.T) {
		until(t, tab, "all parts are made", `document.querySelectorAll('#scrub .parts > [data-state=done]').length >= 3 && !document.querySelector('#scrub .parts > :not([data-state=done])')`)
		if got := eval[string](t, tab, `document.getElementById('scrub').getAttribute('aria-valuetext')`); !strings.Contains(got, "of 0:20") {
			t.Errorf("the bar says %q", got)
		}
		point := `(kind) => { const bar = document.getElementById('scrub'), box = bar.getBoundingClientRect();
			bar.dispatchEvent(new PointerEvent(kind, { clientX: box.left + box.width / 2, clientY: box.top + 5, bubbles: true })); }`
		until(t, tab, "a picture of the middle", `(`+point+`)('pointermove') || document.querySelector('#scrub .tile').style.backgroundImage.includes('storyboard')`)
		if got := eval[string](t, tab, `document.querySelector('#scrub .preview span').textContent`); !strings.HasPrefix(got, "0:10 · made by ") {
			t.Errorf("in the middle the bar says %q", got)
		}
		shoot(t, tab, "bar")
		eval[any](t, tab, `(`+point+`)('click') ?? null`)
		until(t, tab, "the player is in the middle", `Math.abs(document.getElementById('player').currentTime - 10) < 0.1`)
		press(t, tab, `#scrub`, kb.ArrowRight)
		until(t, tab, "five seconds on by keyboard", `Math.abs(document.getElementById('player').currentTime - 15) < 0.1`)
	})

	t.Run("play", func(t *testing.T) {
		press(t, tab, `#player`, " ")
		until(t, tab, "Space plays", `!document.getElementById('player').paused`)
		press(t, tab, `#player`, " ")
		until(t, tab, "Space pauses", `document.getElementById('player').paused`)
	})

	t.Run("edit", func(t *testing.T) {
		press(t, tab, `#edit-open`, kb.Enter)
		if err := chromedp.Do(tab, chromedp.WaitVisible(`#edit-title`)); err != nil {
			t.Fatal(err)
		}
		somebody := func(edit client.VideoEdit) {
			t.Helper()
			now, err := user.API().GetVideoWithResponse(t.Context(), v.Id)
			if err != nil || now.JSON200 == nil {
				t.Fatalf("get: %v", err)
			}
			theirs, err := user.API().EditVideoWithResponse(t.Context(), v.Id, &client.EditVideoParams{IfMatch: &now.JSON200.Etag}, edit)
			if err != nil || theirs.StatusCode() != http.StatusOK {
				t.Fatalf("edit: %v %v", theirs, err)
			}
		}
		title := "As somebody calls it"
		somebody(client.VideoEdit{Title: &title, Tags: &[]string{"theirs"}})
		save := `#edit-form button[type=submit]`
		reach(t, tab, `#edit-title`)
		retype(t, tab, "As it is now")
		press(t, tab, save, kb.Enter)
		until(t, tab, "the page says what somebody else changed", `document.getElementById('edit-trouble').textContent.includes('title is now “As somebody calls it”')`)
		shoot(t, tab, "conflict")
		somebody(client.VideoEdit{Tags: &[]string{"theirs", "too"}}) // another field is no conflict
		press(t, tab, save, kb.Enter)
		until(t, tab, "the new title", `document.getElementById('title').textContent === 'As it is now' && !document.getElementById('edit').open`)
		until(t, tab, "the focus is where it was", `document.activeElement.id === 'edit-open'`)
		until(t, tab, "the tags of somebody else", `document.getElementById('facts').textContent.includes('theirs, too')`)
	})

	t.Run("suggestions", func(t *testing.T) {
		if err := chromedp.Do(tab, chromedp.Click(`#edit-open`), chromedp.WaitVisible(`#edit-tags`)); err != nil {
			t.Fatal(err)
		}
		// The index follows (T8): who types again sees it.
		until(t, tab, "the tag that a video has", `(() => { const field = document.getElementById('edit-tags'), list = document.getElementById('edit-tags-suggestions');
			if (!list.options.length && !(Date.now() - window.typed < 1000)) {
				window.typed = Date.now();
				field.value = field.value === 'mine, thei' ? 'mine, their' : 'mine, thei';
				field.dispatchEvent(new Event('input'));
			}
			return [...list.options].some((o) => o.value === 'mine, theirs'); })()`)
		press(t, tab, `#edit-close`, kb.Enter)
	})

	t.Run("delete", func(t *testing.T) {
		remove := `[data-action=delete]`
		press(t, tab, remove, kb.Enter)
		until(t, tab, "Undo has the focus", `document.activeElement.id === 'undo-button'`)
		shoot(t, tab, "undo")
		press(t, tab, `#undo-button`, kb.Enter)
		until(t, tab, "the page says that it stays", `document.getElementById('undo').hidden`)
		press(t, tab, remove, kb.Enter)
		until(t, tab, "the start page after ten seconds", `location.pathname === '/'`)
		got, err := user.API().GetVideoWithResponse(t.Context(), v.Id)
		if err != nil || got.StatusCode() != http.StatusNotFound {
			t.Errorf("after the delete: %v, %v; want 404", got.StatusCode(), err)
		}
	})
}
