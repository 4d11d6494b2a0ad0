package browser_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
)

// shownCue seeks to a time and says whether the captions that are shown then hold
// a text, and nothing that was markup.
const shownCue = `(() => { const p = document.getElementById('player'), track = [...p.textTracks].find((t) => t.language === 'en');
  if (track?.mode !== 'showing') return -1;
  if (Math.abs(p.currentTime - %[1]v) > 0.2) { p.currentTime = %[1]v; return -1; }
  const cue = [...(track.activeCues || [])].find((c) => c.text.includes('%[2]s'));
  return cue && !cue.text.includes('<') ? 1 : -1; })()`

// TestCaptionsAreShown sends an SRT file through the page of a video, and the
// player that is open shows its cues at their times: all by keyboard.
func TestCaptionsAreShown(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stack.Options{Workers: 1})
	user, err := journey.New(s.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(user.Close)
	v := uploadedAndReady(t, user, client.NewVideo{Title: "With captions"}, moving(t, "64x64", 70))
	tab := open(t)
	watch(t, tab, s.BaseURL()+"/watch/"+v.Id)
	file := filepath.Join(t.TempDir(), "film.srt")
	const text = "1\r\n00:00:02,000 --> 00:00:04,000\r\n<b>The first</b> words\r\n\r\n2\r\n00:01:05,000 --> 00:01:08,000\r\nThe second minute <img src=x onerror=\"window.owned=1\">\r\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(tab, chromedp.WaitReady("#video[data-state=ready]")); err != nil { // its script listens now
		t.Fatal(err)
	}
	press(t, tab, "#captions summary", kb.Enter)
	reach(t, tab, "#language")
	typeKeys(t, tab, "en")
	chooseFiles(t, tab, "#captions-file", file)
	press(t, tab, "#send-captions button", kb.Enter)
	until(t, tab, "the captions are listed", `document.querySelector('#languages a[hreflang=en]')`)
	until(t, tab, "they can be chosen", `document.getElementById('subtitles').options.length === 2 && !document.getElementById('subtitles').hidden`)
	press(t, tab, "#subtitles", kb.ArrowDown)
	until(t, tab, "they are chosen", `document.getElementById('subtitles').value === 'en'`)
	await(t, tab, fmt.Sprintf(shownCue, 3, "The first words"))
	inspect(t, tab, "captions")
	await(t, tab, fmt.Sprintf(shownCue, 66, "The second minute"))
	if eval[bool](t, tab, `'owned' in window`) {
		t.Error("markup in captions was executed")
	}

	press(t, tab, "#subtitles", kb.ArrowUp)
	until(t, tab, "no captions are shown", `![...document.getElementById('player').textTracks].some((t) => t.mode === 'showing')`)
	press(t, tab, "#languages button", " ")
	await(t, tab, `document.querySelectorAll('#languages li').length ? -1 : 1`)
	until(t, tab, "none can be chosen", `document.getElementById('subtitles').hidden`)
}
