package browser_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// numbered makes a video whose every frame says its number, in 12 stripes that
// are white for a bit that is set, the lowest on the left.
func numbered(t *testing.T, rate string, seconds int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "numbered.mp4")
	cmd := exec.CommandContext(t.Context(), "ffmpeg", "-nostdin", "-v", "error",
		"-f", "lavfi", "-i", fmt.Sprintf("color=black:s=384x216:r=%s:d=%d,geq=lum='16+219*mod(floor(N/pow(2,floor(12*X/W))),2)':cb=128:cr=128", rate, seconds),
		"-f", "lavfi", "-i", fmt.Sprintf("anoisesrc=c=pink:a=0.2:r=48000:seed=1:d=%d", seconds),
		"-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", "250", "-c:a", "aac", path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make a video: %v\n%s", err, out)
	}
	return path
}

// TestFindYourOwnFinish is the paper's race (T7) to its end: a runner is
// registered, a video shows the finish, and the bib alone leads to a clip that
// starts at the right frame and plays.
func TestFindYourOwnFinish(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stack.Options{Workers: 1})
	user, err := journey.New(s.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(user.Close)
	const event, bib = "2011 New York City Marathon__Full", 1234
	start := time.Date(2011, 11, 6, 14, 3, 0, 0, time.UTC)
	v := uploadedAndReady(t, user, client.NewVideo{
		Title: "Finish line", Race: &client.Race{Event: event, FirstFrameAt: start},
	}, numbered(t, "30000/1001", 20))
	finish := start.Add(11_300 * time.Millisecond)
	moment := registered(t, user, event, client.NewRegistration{Bib: bib, Name: "John", Sex: "M", Age: 55, FinishedAt: &finish})
	if moment.VideoId != v.Id || moment.AtSeconds != 11.3 {
		t.Errorf("moment %+v, want 11.3 s of %s", moment, v.Id)
	}

	const first, frames = 278, 150 // frame 278 is shown from 9.2759 s to 9.3093 s
	asked := time.Now()
	clip, err := user.FinishClip(t.Context(), event, bib, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the clip was there %v after it was asked for", time.Since(asked).Round(time.Millisecond))
	if want := first * 1001.0 / 30000; clip.VideoId != v.Id || clip.StartSeconds != want || clip.DurationSeconds != frames*1001.0/30000 {
		t.Errorf("clip %+v, want %d frames from %v s", clip, frames, want)
	}

	tab := open(t)
	playsClip(t, tab, s.BaseURL()+*clip.Links.Media, first, clip.DurationSeconds)

	if err := chromedp.Do(tab, chromedp.Navigate(s.BaseURL()+moment.Watch)); err != nil {
		t.Fatal(err)
	}
	at := await(t, tab, `(() => { const p = document.getElementById('player'); return p.readyState >= 2 && !p.seeking ? p.currentTime : -1; })()`)
	if at < 11.299 || at > 11.4 {
		t.Errorf("%s starts at %v", moment.Watch, at)
	}
	const shown = 338 // at 11.3 s
	if n := await(t, tab, readNumber); n < shown-1 || n > shown+1 {
		t.Errorf("%s shows frame %v, want %d", moment.Watch, n, shown)
	}
	shoot(t, tab, "moment")
	raceThroughThePage(t, tab, s.BaseURL(), bib)
}

// raceThroughThePage does on the page of races what runners do: import a start list,
// find a bib and an age group, make the clip.
func raceThroughThePage(t *testing.T, tab context.Context, base string, bib int) {
	t.Helper()
	list := filepath.Join(t.TempDir(), "start.csv")
	if err := os.WriteFile(list, []byte("bib,name,sex,age\n7,\"<b>Ann</b>\",F,41\n8,Bob,M,42\nnine,Cid,M,43\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	visit(t, tab, base+"/race")
	reach(t, tab, `#event`)
	typeKeys(t, tab, "2011 New York City Marathon")
	press(t, tab, `#list summary`, kb.Enter)
	chooseFiles(t, tab, `#csv`, list)
	press(t, tab, `#send`, kb.Enter)
	until(t, tab, "the report of the import", `document.getElementById('report').textContent.startsWith('2 stored (0 of them were there already), 1 refused')`)
	if got := eval[string](t, tab, `document.getElementById('refusals').textContent`); !strings.Contains(got, "Line 4") {
		t.Errorf("the refusals are %q, want line 4", got)
	}
	field := func(id, text string) {
		reach(t, tab, "#"+id)
		retype(t, tab, text)
	}
	field("from", "41")
	field("to", "42"+kb.Enter)
	until(t, tab, "two runners of that age", `document.querySelectorAll('#runners tr').length === 2 && document.getElementById('runners').textContent.includes('<b>Ann</b>')`)
	inspect(t, tab, "race-import")
	field("bib", strconv.Itoa(bib)+kb.Enter)
	until(t, tab, "the runner and the moment", `document.querySelectorAll('#runners tr').length === 1 && document.querySelector('#runners a[href*="t=11.3"]')`)
	inspect(t, tab, "race-moment")
	press(t, tab, `#runners button`, kb.Enter)
	if err := chromedp.Do(tab, chromedp.WaitVisible(`#runners a[download]`)); err != nil {
		t.Fatalf("make the clip: %v", err)
	}
	until(t, tab, "the focus is on the clip", `document.activeElement.matches('#runners .clip a')`)
	inspect(t, tab, "race-clip")
}

// registered enters a runner and waits until the registration leads to a video:
// that follows with an index item (T8).
func registered(t *testing.T, user *journey.User, event string, runner client.NewRegistration) client.Moment {
	t.Helper()
	report, err := user.API().ImportRegistrationsWithResponse(t.Context(), event, client.ImportRegistrationsJSONRequestBody{runner})
	if err != nil {
		t.Fatal(err)
	}
	if report.JSON200 == nil || report.JSON200.Accepted != 1 {
		t.Fatalf("register: %s", report.Body)
	}
	var found []client.Moment
	if !azuritetest.Poll(time.Minute, func() bool {
		list, err := user.API().ListRegistrationsWithResponse(t.Context(), event, &client.ListRegistrationsParams{Bib: &runner.Bib})
		if err != nil {
			t.Fatal(err)
		}
		if list.JSON200 == nil || len(list.JSON200.Items) != 1 {
			t.Fatalf("registrations of bib %d: %s", runner.Bib, list.Body)
		}
		found = list.JSON200.Items[0].Moments
		return len(found) > 0
	}) {
		t.Fatal("no video shows the finish")
	}
	return found[0]
}

// playsClip opens an MP4 in the browser's own player, looks at the first picture
// and waits for the end.
func playsClip(t *testing.T, tab context.Context, url string, first int, seconds float64) {
	t.Helper()
	if err := chromedp.Do(tab, chromedp.Navigate(url)); err != nil {
		t.Fatalf("open %s: %v", url, err)
	}
	const pause = `(() => { const p = document.querySelector('video'); p.autoplay = false; p.pause(); p.muted = true; p.currentTime = 0; return 1; })()`
	await(t, tab, pause)
	await(t, tab, `(() => { const p = document.querySelector('video'); return p.readyState >= 2 && !p.seeking && p.currentTime === 0 ? 1 : -1; })()`)
	if n := await(t, tab, readNumber); n != float64(first) {
		t.Errorf("the browser shows frame %v first, want %d", n, first)
	}
	shoot(t, tab, "clip")
	await(t, tab, `(() => { const p = document.querySelector('video'); window.stalls = 0;
	  p.addEventListener('waiting', () => { if (!p.ended) window.stalls++; });
	  p.play(); return 1; })()`)
	end := await(t, tab, `(() => { const p = document.querySelector('video'); return p.error ? -2 : p.ended ? p.currentTime : -1; })()`)
	if end < seconds-0.05 || end > seconds+0.05 {
		t.Errorf("the clip ends at %v s, want %v", end, seconds)
	}
	if n := await(t, tab, `window.stalls`); n > 0 {
		t.Errorf("the clip stalled %v times", n)
	}
}
