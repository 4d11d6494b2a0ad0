package browser_test

import (
	"fmt"
	"math"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
)

// TestWatchPage does by keyboard what the page of a video offers: playing, the bar of its
// parts, changing its words while another editor does, and thinking again about a
// delete.
func TestWatchPage(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stack.Options{Workers: 1})
	user, err := journey.New(s.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(user.Close)
	v := uploadedAndReady(t, user, client.NewVideo{Title: "As it was"}, clip(t, 20))
	loud := upload(t, user, client.NewVideo{Title: "Loud"}, loudClip(t))
	tab := open(t)
	if err := chromedp.Do(tab, chromedp.Navigate(s.BaseURL()+"/watch/"+v.Id)); err != nil {
		t.Fatal(err)
	}
	playable(t, tab, "watch")

	t.Run("nothing is loaded before", func(t *testing.T) {
		until(t, tab, "the playlist is there", `performance.getEntriesByType('resource').some((e) => e.name.endsWith('.m3u8'))`)
		time.Sleep(time.Second) // in which a player that loads by itself has loaded
		if got := eval[float64](t, tab, `performance.getEntriesByType('resource').filter((e) => /\/v\/.*\.(m4s|mp4)/.test(e.name)).length`); got != 0 {
			t.Errorf("%.0f parts of the film were loaded before it is played", got)
		}
	})

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
		inspect(t, tab, "bar")
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

	t.Run("keys", func(t *testing.T) {
		eval[any](t, tab, `(() => { const p = document.getElementById('player'); addEventListener('keydown', (e) => { window.scrolls = !e.defaultPrevented; }); p.loop = true; p.currentTime = 8; })(), document.activeElement.blur() ?? null`)
		for _, step := range []struct{ key, holds string }{
			{kb.ArrowRight, `Math.abs(document.getElementById('player').currentTime - 13) < 0.5`},
			{"k", `!document.getElementById('player').paused`},
			{"m", `document.getElementById('player').muted`},
			{" ", `document.getElementById('player').paused && !window.scrolls`},
		} {
			if err := chromedp.Do(tab, chromedp.KeyEvent(step.key)); err != nil {
				t.Fatal(err)
			}
			until(t, tab, fmt.Sprintf("key %q", step.key), step.holds)
		}
	})

	t.Run("clip", func(t *testing.T) {
		press(t, tab, `#clip summary`, kb.Enter)
		until(t, tab, "it begins with what is shown", `Number(document.getElementById('clip-from').value) > 5`)
		press(t, tab, `#make-clip button`, kb.Enter)
		until(t, tab, "the clip has a link", `document.querySelector('#clip-made a')?.href.includes('/clips/')`)
		inspect(t, tab, "clip-made")
	})

	t.Run("edit", func(t *testing.T) {
		press(t, tab, `#edit-open`, kb.Enter)
		if err := chromedp.Do(tab, chromedp.WaitVisible(`#edit-title`)); err != nil {
			t.Fatal(err)
		}
		another := func(edit client.VideoEdit) {
			t.Helper()
			stacktest.Eventually(t, "another user's edit", func() bool {
				now, err := user.API().GetVideoWithResponse(t.Context(), v.Id)
				if err != nil || now.JSON200 == nil {
					t.Fatalf("get: %v", err)
				}
				theirs, err := user.API().EditVideoWithResponse(t.Context(), v.Id, &client.EditVideoParams{IfMatch: &now.JSON200.Etag}, edit)
				if err != nil || theirs.StatusCode() != http.StatusOK && theirs.StatusCode() != http.StatusPreconditionFailed {
					t.Fatalf("edit: %v %v", theirs, err)
				}
				return theirs.StatusCode() == http.StatusOK // a worker may change the row in between
			})
		}
		title := "As another calls it"
		another(client.VideoEdit{Title: &title, Tags: &[]string{"theirs"}})
		save := `#edit-form button[type=submit]`
		reach(t, tab, `#edit-title`)
		retype(t, tab, "As it is now")
		press(t, tab, save, kb.Enter)
		until(t, tab, "the page says what another user changed", `document.getElementById('edit-trouble').textContent.includes('title is now “As another calls it”')`)
		inspect(t, tab, "conflict")
		another(client.VideoEdit{Tags: &[]string{"theirs", "too"}}) // another field is no conflict
		press(t, tab, save, kb.Enter)
		until(t, tab, "the new title", `document.getElementById('title').textContent === 'As it is now' && !document.getElementById('edit').open`)
		until(t, tab, "the focus is where it was", `document.activeElement.id === 'edit-open'`)
		until(t, tab, "the tags of another user", `document.getElementById('facts').textContent.includes('theirs, too')`)
	})

	t.Run("race", func(t *testing.T) {
		press(t, tab, `#edit-open`, kb.Enter)
		press(t, tab, `#edit .race summary`, kb.Enter)
		reach(t, tab, `#edit-race-event`)
		typeKeys(t, tab, "City Run 2026")
		eval[any](t, tab, `document.getElementById('edit-race-first-frame').value = '2026-05-03T10:00:00.500', null`)
		inspect(t, tab, "race-of-a-film")
		press(t, tab, `#edit-form button[type=submit]`, kb.Enter)
		until(t, tab, "it is saved", `!document.getElementById('edit').open`)
		now, err := user.API().GetVideoWithResponse(t.Context(), v.Id)
		if err != nil || now.JSON200 == nil || now.JSON200.Race == nil || now.JSON200.Race.Event != "City Run 2026__Full" || now.JSON200.Race.FirstFrameAt.Nanosecond() != 5e8 {
			t.Errorf("the film shows the race %+v, %v", now.JSON200, err)
		}
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
		inspect(t, tab, "suggestions")
		press(t, tab, `#edit-close`, kb.Enter)
	})

	t.Run("embed", func(t *testing.T) {
		visit(t, tab, s.BaseURL()+"/embed/"+v.Id)
		playable(t, tab, "embed")
		press(t, tab, `.play`, kb.Enter)
		until(t, tab, "it plays", `document.getElementById('player').currentTime > 0.5`)
		until(t, tab, "the focus is on the player", `document.activeElement.id === 'player'`)
		inspect(t, tab, "embed")
	})

	t.Run("loudness", func(t *testing.T) {
		turnedDown := gain(t, user, loud.Id)
		if turnedDown >= 0 {
			t.Errorf("a tone as loud as it can be has a gain of %v dB", turnedDown)
		}
		if as := gain(t, user, v.Id); as != 0 { // so that its volume of 1 says something
			t.Errorf("a soft tone has a gain of %v dB", as)
		}
		// The page sets the volume before it gives the player the film.
		volume := func(id string) float64 {
			t.Helper()
			visit(t, tab, s.BaseURL()+"/watch/"+id)
			playable(t, tab, "watch")
			return eval[float64](t, tab, `document.getElementById('player').volume`)
		}
		want, got := math.Pow(10, turnedDown/20), volume(loud.Id)
		t.Logf("a gain of %v dB is a volume of %v", turnedDown, got)
		if math.Abs(got-want) > 0.01 {
			t.Errorf("the loud film plays at volume %v, want %v", got, want)
		}
		if got := volume(v.Id); got != 1 {
			t.Errorf("the soft film plays at volume %v", got)
		}
	})

	t.Run("delete", func(t *testing.T) {
		remove := `[data-action=delete]`
		// The ten seconds stand still while the page is looked at: that may take longer.
		eval[any](t, tab, `window.realNow = Date.now; { const at = Date.now(); Date.now = () => at; } null`)
		press(t, tab, remove, kb.Enter)
		until(t, tab, "Undo has the focus", `document.activeElement.id === 'undo-button'`)
		inspect(t, tab, "undo", sight{"dark", 360})
		press(t, tab, `#undo-button`, kb.Enter)
		until(t, tab, "the page says that it stays", `document.getElementById('undo').hidden`)
		eval[any](t, tab, `Date.now = window.realNow; null`)
		press(t, tab, remove, kb.Enter)
		until(t, tab, "the start page after ten seconds", `location.pathname === '/'`)
		got, err := user.API().GetVideoWithResponse(t.Context(), v.Id)
		if err != nil || got.StatusCode() != http.StatusNotFound {
			t.Errorf("after the delete: %v, %v; want 404", got.StatusCode(), err)
		}
	})
}

// loudClip has a tone that is as loud as samples can be: that of clip is 18 dB below it.
func loudClip(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "loud.mp4")
	cmd := exec.CommandContext(t.Context(), "ffmpeg", "-nostdin", "-v", "error",
		"-f", "lavfi", "-i", "testsrc2=s=320x180:r=25:d=4", "-f", "lavfi", "-i", "sine=d=4,volume=18dB",
		"-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac", path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make a clip: %v\n%s", err, out)
	}
	return path
}

// gain waits until the sound of a video was measured, and says how the player is to
// change it, in dB.
func gain(t *testing.T, user *journey.User, id string) (dB float64) {
	t.Helper()
	stacktest.Eventually(t, "the sound of "+id+" is measured", func() bool {
		v, err := user.Video(t.Context(), id)
		if err != nil || v.Made == nil {
			return false
		}
		for _, m := range *v.Made {
			if m.Step == "loudness" && m.Facts != nil {
				var measured bool
				dB, measured = (*m.Facts)["gainDb"].(float64)
				return measured
			}
		}
		return false
	})
	return dB
}
