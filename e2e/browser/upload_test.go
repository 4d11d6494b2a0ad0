package browser_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/video"
)

// corrupt changes a bit of the first part that the page sends, breaks the connection of
// the second one, and keeps what became of the parts.
const corrupt = `(() => {
  const real = window.fetch, answers = window.answers = [];
  window.fetch = async (url, options) => {
    if (!String(url).includes('%2Fparts%2F')) return real(url, options);
    let body = options.body;
    if (!answers.length) { body = body.slice(0); new Uint8Array(body)[0] ^= 1; }
    answers.push(0);
    if (answers.length === 2) throw new TypeError('Failed to fetch');
    const mine = answers.length - 1, answer = await real(url, { ...options, body });
    answers[mine] = answer.status;
    return answer;
  };
})()`

// until looks at a page until an expression is true.
func until(t *testing.T, tab context.Context, what, expression string) {
	t.Helper()
	var err error
	if !azuritetest.Poll(time.Minute, func() (is bool) {
		is, err = chromedp.Run(tab, chromedp.Evaluate[bool](`!!(`+expression+`)`))
		return err == nil && is
	}) {
		shoot(t, tab, "stuck")
		text, _ := chromedp.Run(tab, chromedp.Evaluate[string](`document.body.innerText`))
		t.Fatalf("not in time: %s (%v). The page says:\n%s", what, err, text)
	}
}

// eval is what an expression is on a page.
func eval[T any](t *testing.T, tab context.Context, expression string) T {
	t.Helper()
	got, err := chromedp.Run(tab, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return got
}

// TestUploadThroughThePage chooses files in the upload page, as a user does who has
// only a keyboard: two videos and something else. A part that is changed on the way is refused and sent
// again (paper row Q12), and one whose connection breaks, too. Each row becomes a link that plays, and
// the search finds it.
func TestUploadThroughThePage(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stack.Options{Workers: 1})
	tab := open(t)
	letter := filepath.Join(t.TempDir(), "letter.mp4")
	if err := os.WriteFile(letter, []byte("Dear Sir, this is no video at all."), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(tab, chromedp.Navigate(s.BaseURL()+"/upload")); err != nil {
		t.Fatal(err)
	}
	eval[any](t, tab, corrupt+`; null`)
	chooseFiles(t, tab, `#file`, clip(t, 6), letter)
	shoot(t, tab, "upload-focus")
	until(t, tab, "the files are looked at", `document.querySelector('#files [data-phase=waiting]') && document.querySelector('#files [data-phase=refused]')`)
	chooseFiles(t, tab, `#file`, clip(t, 5))
	until(t, tab, "the button counts files", `document.getElementById('send').textContent === 'Upload 2 files'`)
	inspect(t, tab, "upload-chosen")
	press(t, tab, `#about summary`, kb.Enter)
	reach(t, tab, `#tags`)
	typeKeys(t, tab, "yellow")
	reach(t, tab, `#files [data-phase=waiting] input`)
	retype(t, tab, "Uploaded by hand")
	press(t, tab, `#send`, kb.Enter)
	until(t, tab, "both are ready", `document.querySelectorAll('#files [data-state=ready]').length === 2`)
	inspect(t, tab, "uploaded")
	if got := eval[string](t, tab, `window.answers.join(' ')`); got != "400 0 201 201" {
		t.Errorf("answers to the parts: %q; want what was refused, or got no answer, sent again", got)
	}
	if got := eval[int](t, tab, `document.querySelectorAll('#files [data-phase=refused]').length`); got != 1 {
		t.Errorf("%d files refused, want the letter", got)
	}
	press(t, tab, `#files [data-state=ready] a`, kb.Enter)
	if err := chromedp.Do(tab, chromedp.WaitVisible(`#player`)); err != nil {
		t.Fatalf("follow the link: %v", err)
	}
	until(t, tab, "the title that was typed", `document.title.startsWith('Uploaded by hand')`)
	press(t, tab, `.brand`, kb.Enter)
	until(t, tab, "the start page lists both", `document.querySelectorAll('#videos li[data-id]').length === 2`)
	shoot(t, tab, "home")
	reach(t, tab, `#q`)
	typeKeys(t, tab, "hand")
	until(t, tab, "the search finds one", `location.search === '?q=hand' && document.querySelectorAll('#videos li[data-id]').length === 1 && document.getElementById('status').textContent.startsWith('1 found')`)
	press(t, tab, `#facets button`, kb.Enter)
	until(t, tab, "the search can be narrowed down", `document.querySelector('#facets a[href="/?q=hand&tag=yellow"]')`)
	inspect(t, tab, "found")
	press(t, tab, `#facets a[href="/?q=hand&tag=yellow"]`, kb.Enter)
	until(t, tab, "it is narrowed down", `location.search === '?q=hand&tag=yellow' && document.querySelectorAll('#videos li[data-id]').length === 1`)
	inspect(t, tab, "narrowed")
	press(t, tab, `#facets a`, kb.Enter)
	until(t, tab, "it is as wide as before", `location.search === '?q=hand' && document.querySelector('#facets button')`)
	lateFacets(t, tab)
	reach(t, tab, `#q`)
	retype(t, tab, "hamd")
	until(t, tab, "it asks what was meant", `document.getElementById('mean').textContent.includes('Did you mean hand?')`)
	inspect(t, tab, "mean")
	press(t, tab, `#mean a`, kb.Enter)
	until(t, tab, "the search for what was meant", `location.search === '?q=hand' && document.querySelectorAll('#videos li[data-id]').length === 1`)
	press(t, tab, `#videos a`, kb.Enter)
	until(t, tab, "the page of the video that was found", `document.title.startsWith('Uploaded by hand')`)

	press(t, tab, `#facts a[href="/?channel=main"]`, kb.Enter)
	until(t, tab, "the channel has both", `document.querySelectorAll('#videos li[data-id]').length === 2 && !document.getElementById('order').hidden`)
	press(t, tab, `#sort`, kb.ArrowDown)
	until(t, tab, "they are in the order of their titles", `location.search.includes('sort=title') && [...document.querySelectorAll('#videos h2')].map((h) => h.textContent).join() === 'clip,Uploaded by hand'`)
	inspect(t, tab, "channel")
	t.Run("offline at the end", func(t *testing.T) { offlineAtTheEnd(t, tab, s.BaseURL()) })
}

// lateFacets asks for facets and searches for something else before they have come: those of
// the earlier search are not shown then.
func lateFacets(t *testing.T, tab context.Context) {
	t.Helper()
	eval[any](t, tab, `(() => {
  const real = window.fetch;
  window.fetch = async (url, options) => {
    if (!String(url).includes('facets=true')) return real(url, options);
    await new Promise((go) => { window.letFacetsCome = go; });
    const answer = await real(url, options), text = await answer.text();
    setTimeout(() => { window.facetsCame = true; }, 100);
    return new Response(text, answer);
  };
  return null;
})()`)
	press(t, tab, `#facets button`, kb.Enter)
	until(t, tab, "the facets are asked for", `window.letFacetsCome`)
	reach(t, tab, `#q`)
	retype(t, tab, "clip")
	until(t, tab, "the page searches for something else", `location.search === '?q=clip'`)
	eval[any](t, tab, `window.letFacetsCome(); null`)
	until(t, tab, "the facets have come", `window.facetsCame`)
	if n := eval[int](t, tab, `document.querySelectorAll('#facets a').length`); n != 0 {
		t.Errorf("%d facets of the earlier search are shown", n)
	}
}

// gated lets six parts of a file go to storage. Those that follow wait before the wire
// until the gate is opened, so a test finds requests under way on a machine of any speed.
const gated = `(() => {
  const real = window.fetch, parts = window.parts = { begun: [], underWay: 0, taken: 0 };
  const gate = new Promise((open) => { parts.open = open; });
  window.fetch = async (url, options) => {
    if (!String(url).includes('%2Fparts%2F')) return real(url, options);
    parts.underWay++;
    try {
      if (parts.begun.push(new URL(url).pathname) > 6) await gate;
      const answer = await real(url, options);
      if (answer.status === 201) parts.taken++;
      return answer;
    } finally { parts.underWay--; }
  };
})(); null`

// TestPageAndServerRefuseTheSame: the page judges files as they are chosen, by the patterns of
// the server, in another language.
func TestPageAndServerRefuseTheSame(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stack.Options{Workers: 1})
	user, err := journey.New(s.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(user.Close)
	zeros := string(make([]byte, 600))
	heads := map[string]string{
		"short": "\x00", "playlist": "#EXTM3U\nvideo.ts\n\x00\x01", "PNG": "\x89PNG\r\n\x1a\n" + zeros, "JPEG": "\xff\xd8\xff\xe0" + zeros,
		"HEIC": "\x00\x00\x00\x18ftypheic" + zeros, "WAV": "RIFF\xff\x0a\x00\x80WAVE" + zeros, "ZIP": "PK\x03\x04" + zeros,
		"tar": zeros[:257] + "ustar" + zeros, "program": "MZ" + zeros[:76] + "This program cannot be run in DOS mode" + zeros, "text": "Dear Sir, \xe9\r\n\tno video",
		"zeros": zeros, "padding": strings.Repeat("\xff", 600), "text and zeros": "Dear Sir, no video" + zeros, "AVI": "RIFF\xff\x0a\x00\x80AVI LIST" + zeros, "tag": "ID3\x04" + zeros,
		"MP4": "\x00\x00\x00\x18ftypisom" + zeros,
	}
	want, dir := map[string]string{}, t.TempDir()
	var files []string
	for name, head := range heads {
		v, err := user.Announce(t.Context(), client.NewVideo{Title: name})
		if err != nil {
			t.Fatal(err)
		}
		switch err := user.Put(t.Context(), v.Id, strings.NewReader(head), int64(len(head))); {
		case err == nil:
			want[name] = "waiting"
		case journey.Code(err) == "unsupported_media":
			want[name] = "refused"
		default:
			t.Fatalf("%s: %v", name, err)
		}
		files = append(files, filepath.Join(dir, name+".mp4"))
		if err := os.WriteFile(files[len(files)-1], []byte(head), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tab := open(t)
	visit(t, tab, s.BaseURL()+"/upload")
	chooseFiles(t, tab, `#file`, files...)
	until(t, tab, "the files are looked at", fmt.Sprintf(`document.querySelectorAll('#files [data-phase=waiting], #files [data-phase=refused]').length === %d`, len(files)))
	got := eval[map[string]string](t, tab, `Object.fromEntries([...document.querySelectorAll('#files li')].map((row) => [row.querySelector('input').value, row.dataset.phase]))`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-server +page):\n%s", diff)
	}
	if refused := eval[string](t, tab, `document.querySelector('#files [data-phase=refused]').textContent`); !strings.Contains(refused, video.ContainerNames()) {
		t.Errorf("the page does not say what is read: %q", refused)
	}
}

// pausesAndGoesOn sends a file by keyboard and pauses in its middle: what is under way
// ends, nothing more begins, and the next try sends the rest, each part once.
func pausesAndGoesOn(t *testing.T, user *journey.User, tab context.Context, base string) {
	t.Helper()
	const size = 64 << 20
	visit(t, tab, base+"/upload")
	eval[any](t, tab, gated)
	chooseFiles(t, tab, `#file`, largeFile(t, size))
	until(t, tab, "the file can be sent", `!document.getElementById('send').disabled`)
	press(t, tab, `#send`, kb.Enter)
	until(t, tab, "parts are taken, and others under way", `window.parts.taken === 6 && window.parts.underWay > 1`)
	press(t, tab, `#files button[aria-label^="Pause:"]`, kb.Enter)
	until(t, tab, "the row says that it is paused", `document.querySelector('#files li').textContent.includes('Paused at ')`)
	begun := eval[int](t, tab, `window.parts.begun.length`)
	eval[any](t, tab, `window.parts.open(); null`)
	until(t, tab, "what was under way ends", `window.parts.underWay === 0`)
	id := eval[string](t, tab, `document.querySelector('#files li').dataset.id`)
	held, err := user.API().GetUploadWithResponse(t.Context(), id)
	if err != nil || held.JSON200 == nil {
		t.Fatalf("ask what storage holds: %v %v", held, err)
	}
	if len(held.JSON200.Held) != begun {
		t.Errorf("of %d parts that were begun storage holds %d", begun, len(held.JSON200.Held))
	}
	arrived := fmt.Sprintf("Paused at %.1f MB", float64(begun)*float64(held.JSON200.PartSizeBytes)/1e6)
	until(t, tab, "the row counts what ended", `document.querySelector('#files li').textContent.includes('`+arrived+`')`)
	inspect(t, tab, "upload-paused")
	// A page that can ask other things, and be answered, could send parts as well.
	const ask = `fetch('/api/v1/videos/%s').then((answer) => answer.json()).then(() => window.parts.begun.length)`
	for range 30 {
		now, err := chromedp.Run(tab, chromedp.Evaluate[int](fmt.Sprintf(ask, id), chromedp.EvalAwaitPromise))
		if err != nil {
			t.Fatal(err)
		}
		if now != begun {
			t.Fatalf("paused with %d parts begun, the page has begun %d", begun, now)
		}
		time.Sleep(50 * time.Millisecond) // the pace of looking
	}
	if got := eval[string](t, tab, `document.activeElement.textContent`); got != "Go on" {
		t.Errorf("the focus is on %q, want the button that goes on", got)
	}
	typeKeys(t, tab, kb.Enter)
	until(t, tab, "it is sent", `document.querySelector('#files [data-phase=making], #files [data-phase=settled]')`)
	sent, different := eval[int](t, tab, `window.parts.begun.length`), eval[int](t, tab, `new Set(window.parts.begun).size`)
	t.Logf("of %d parts %d were begun before the pause", held.JSON200.Parts, begun)
	if sent != held.JSON200.Parts || different != sent {
		t.Errorf("%d parts were sent %d times, and there are %d", different, sent, held.JSON200.Parts)
	}
}

// offlineAtTheEnd loses the network before the last request of an upload, for longer than
// a try lasts: the page says that it tries again, and does so when the network is back,
// long before its pause would be over.
func offlineAtTheEnd(t *testing.T, tab context.Context, base string) {
	t.Helper()
	visit(t, tab, base+"/upload")
	eval[any](t, tab, `(() => { const real = window.fetch;
	  window.tries = 0; window.away = true;
	  window.fetch = (url, options) => (window.away && String(url).endsWith('/upload/complete') ? (window.tries++, Promise.reject(new TypeError('Failed to fetch'))) : real(url, options));
	})(); null`)
	chooseFiles(t, tab, `#file`, clip(t, 4))
	until(t, tab, "the file can be sent", `!document.getElementById('send').disabled`)
	press(t, tab, `#send`, kb.Enter)
	until(t, tab, "the fifth try has failed, so the next is 6 s away or more", `window.tries >= 5`)
	if said := eval[string](t, tab, `document.querySelector('#files li').textContent`); !strings.Contains(said, "trying again") || strings.Contains(said, "Failed to fetch") {
		t.Errorf("offline, the row says %q", said)
	}
	back := time.Now()
	eval[any](t, tab, `window.away = false, dispatchEvent(new Event('online')), null`)
	until(t, tab, "it is sent", `document.querySelector('#files [data-phase=making], #files [data-phase=settled]')`)
	if took := time.Since(back); took > azuritetest.Patience(4*time.Second) {
		t.Errorf("it went on %v after the network was back", took)
	}
}

// stalling counts the parts that storage has taken from a page, and lets so many of
// them start: the others wait for ever.
func stalling(parts int) string {
	return fmt.Sprintf(`(() => {
  const real = window.fetch;
  let begun = 0;
  window.taken = 0;
  window.fetch = async (url, options) => {
    if (!String(url).includes('%%2Fparts%%2F')) return real(url, options);
    if (begun++ >= %d) await new Promise(() => {});
    const answer = await real(url, options);
    if (answer.status === 201) window.taken++;
    return answer;
  };
})(); null`, parts)
}

// TestSameFileFromTwoTabs: two tabs send the same file at the same time. They make one
// video, and it becomes ready (H1): each part is written once, and who is not the last to
// say that all is there is told what became of it.
func TestSameFileFromTwoTabs(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stack.Options{Workers: 1})
	user := newUser(t, s)
	browser := open(t)
	path := filepath.Join(t.TempDir(), "large.mp4") // several parts: noise does not compress
	if out, err := exec.CommandContext(t.Context(), "ffmpeg", "-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=640x360:r=25:d=5,noise=alls=60:allf=t",
		"-c:v", "libx264", "-preset", "ultrafast", "-qp", "10", "-pix_fmt", "yuv420p", path).CombinedOutput(); err != nil {
		t.Fatalf("make a film: %v\n%s", err, out)
	}
	var tabs []context.Context
	for range 2 {
		tab, closeTab := chromedp.NewContext(browser)
		defer closeTab()
		visit(t, tab, s.BaseURL()+"/upload")
		if err := chromedp.Do(tab, chromedp.SetUploadFiles(`#file`, []string{path})); err != nil {
			t.Fatal(err)
		}
		until(t, tab, "the file can be sent", `!document.getElementById('send').disabled`)
		tabs = append(tabs, tab)
	}
	for _, tab := range tabs {
		if err := chromedp.Do(tab, chromedp.Click(`#send`)); err != nil {
			t.Fatal(err)
		}
	}
	ids := map[string]bool{}
	for _, tab := range tabs {
		until(t, tab, "it is sent", `document.querySelector('#files [data-phase=making], #files [data-phase=settled]')`)
		ids[eval[string](t, tab, `document.querySelector('#files li').dataset.id`)] = true
	}
	if len(ids) != 1 {
		t.Fatalf("the tabs made the videos %v", ids)
	}
	for id := range ids {
		if _, err := user.AwaitReady(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
}

// TestUploadGoesOnInAnotherTab: the tab of a large upload is closed in its middle.
// Anyone who chooses the file again sends only what storage does not hold: in another tab,
// which remembers the file, and on another device, by the link on the video's page.
func TestUploadGoesOnInAnotherTab(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stack.Options{})
	user, err := journey.New(s.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(user.Close)
	browser := open(t)
	if !t.Run("paused", func(t *testing.T) { pausesAndGoesOn(t, user, browser, s.BaseURL()) }) {
		return // a page that still sends asks before it is left
	}
	if err := chromedp.Do(browser, chromedp.Navigate("about:blank")); err != nil {
		t.Fatal(err)
	}
	first, closeFirst := chromedp.NewContext(browser)
	defer closeFirst()
	path := filepath.Join(t.TempDir(), "large.mp4")
	head, err := os.ReadFile(clip(t, 5))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, head, 0o600); err != nil {
		t.Fatal(err)
	}
	const size = 64 << 20
	if err := os.Truncate(path, size); err != nil { // zeros to its end: they are never read
		t.Fatal(err)
	}
	send := func(tab context.Context, parts int) {
		t.Helper()
		eval[any](t, tab, stalling(parts))
		if err := chromedp.Do(tab, chromedp.SetUploadFiles(`#file`, []string{path})); err != nil {
			t.Fatal(err)
		}
		until(t, tab, "the file can be sent", `!document.getElementById('send').disabled`)
		if err := chromedp.Do(tab, chromedp.Click(`#send`)); err != nil {
			t.Fatal(err)
		}
	}
	const some, more, all = 6, 3, 1 << 20
	visit(t, first, s.BaseURL()+"/upload")
	send(first, some)
	until(t, first, "some parts are taken", fmt.Sprintf(`window.taken === %d`, some))
	id := eval[string](t, first, `document.querySelector('#files li').dataset.id`)
	closeFirst()
	second, closeSecond := chromedp.NewContext(browser)
	defer closeSecond()
	visit(t, second, s.BaseURL()+"/upload")
	send(second, more)
	until(t, second, "some more are taken", fmt.Sprintf(`window.taken === %d`, more))
	if again := eval[string](t, second, `document.querySelector('#files li').dataset.id`); again != id {
		t.Errorf("the second tab made video %s of its own", again)
	}
	closeSecond()
	device, closeDevice := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	defer closeDevice()
	visit(t, device, s.BaseURL()+"/watch/"+id)
	until(t, device, "the page of the video leads to its upload", `document.querySelector('#waiting a')`)
	if err := chromedp.Do(device, chromedp.Click(`#waiting a`), chromedp.WaitVisible(`#drop`)); err != nil {
		t.Fatal(err)
	}
	until(t, device, "its script has run", `document.readyState === 'complete'`)
	held, err := user.API().GetUploadWithResponse(t.Context(), id)
	if err != nil || held.JSON200 == nil {
		t.Fatalf("ask what storage holds: %v %v", held, err)
	}
	send(device, all)
	until(t, device, "it is sent", `document.querySelector('#files [data-phase=making], #files [data-phase=settled]')`)
	sent, there := eval[int](t, device, `window.taken`), len(held.JSON200.Held)
	total := held.JSON200.Parts
	t.Logf("of %d parts %d were held, %d were sent", total, there, sent)
	if there != some+more || sent != total-some-more {
		t.Errorf("of %d parts %d were held and %d were sent by the other device", total, there, sent)
	}
	if again := eval[string](t, device, `document.querySelector('#files li').dataset.id`); again != id {
		t.Errorf("the other device made video %s of its own", again)
	}
}

func visit(t *testing.T, tab context.Context, url string) {
	t.Helper()
	if err := chromedp.Do(tab, chromedp.Navigate(url)); err != nil {
		t.Fatalf("open %s: %v", url, err)
	}
}
