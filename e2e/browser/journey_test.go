package browser_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
)

// toJourney shows the part of a page that asks for what it shows when it is seen. While a
// page loads, what comes above moves that part away again, so it is scrolled to until it
// shows something.
const toJourney = `(function scroll() {
	document.getElementById('journey')?.scrollIntoView();
	if (document.getElementById('journey') && !document.querySelector('#steps tr')) setTimeout(scroll, 200);
	return null;
})()`

// waterfall is what the page shows of the journey.
type waterfall struct {
	Bars []struct {
		Row, Kind, Words   string
		Left, Right        float64 // pixels
		TrackLeft, TrackTo float64
	}
	Table   []string
	Stops   int // bars that the tab key reaches
	Sum     string
	Cost    string
	Missing string
	Owned   bool // a text of a stranger became markup
	Wide    bool // the page is wider than the window
}

const readWaterfall = `JSON.stringify((() => {
  const text = (id) => document.getElementById(id).textContent;
  return {
    bars: [...document.querySelectorAll('#waterfall .bar')].map((b) => { const box = b.getBoundingClientRect(), track = b.parentElement.getBoundingClientRect();
      return { row: b.parentElement.previousElementSibling.textContent, kind: b.dataset.kind, words: b.getAttribute('aria-label'),
        left: box.left, right: box.right, trackLeft: track.left, trackTo: track.right }; }),
    table: [...document.querySelectorAll('#steps tr')].map((tr) => [...tr.children].map((c) => c.textContent).join('|')),
    stops: document.querySelectorAll('#waterfall .bar[tabindex="0"]').length,
    sum: text('journey-sum'), cost: text('cost-sum'), missing: text('cost-missing'),
    owned: 'owned' in window || !!document.querySelector('#video img'), wide: document.documentElement.scrollWidth > innerWidth,
  };
})())`

func readPage(t *testing.T, tab context.Context) (w waterfall) {
	t.Helper()
	text, err := chromedp.Run(tab, chromedp.Evaluate[string](readWaterfall))
	if err == nil {
		err = json.Unmarshal([]byte(text), &w)
	}
	if err != nil {
		t.Fatalf("read the waterfall: %v", err)
	}
	return w
}

// TestThePageTellsTheJourney kills a worker with a finished chunk in its hands while the page
// of the video is open. The page draws the attempt as running, then
// as lost, and the next worker's beside it; in words, and in a table.
func TestThePageTellsTheJourney(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stack.Options{Env: []string{"CUTROOM_VISIBILITY=*=6s", "CUTROOM_RECONCILE_INTERVAL=2s", "CUTROOM_RECONCILE_GRACE=2s"}})
	killed, err := s.AddWorker(t.Context(), "WORKERROLE_NAME=victim", "WORKERROLE_POOLS=light=4,heavy=1", "CUTROOM_FAILPOINT=encode/output#3:kill:"+filepath.Join(t.TempDir(), "killed"))
	if err != nil {
		t.Fatal(err)
	}
	user, err := journey.New(s.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(user.Close)
	tab := open(t)
	said := listen(t, tab)
	v, err := user.Announce(t.Context(), client.NewVideo{Title: hostile})
	if err != nil {
		t.Fatal(err)
	}
	watch(t, tab, s.BaseURL()+"/watch/"+v.Id)
	if _, err := chromedp.Run(tab, chromedp.Evaluate[any](toJourney)); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(clip(t, clipSeconds))
	if err != nil {
		t.Fatal(err)
	}
	if err := user.Put(t.Context(), v.Id, strings.NewReader(string(file)), int64(len(file))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Wait(t.Context(), killed); err != nil {
		t.Fatal(err)
	}
	await(t, tab, `document.querySelectorAll('#waterfall .bar[data-kind=running]').length ? 1 : -1`)
	shootJourney(t, tab, "running")
	inspect(t, tab, "journey-running") // no worker is left that could take it

	if _, err := s.AddWorker(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, tab, `document.querySelectorAll('#waterfall .bar[data-kind=lost]').length ? 1 : -1`)
	shootJourney(t, tab, "lost")
	if _, err := user.AwaitReady(t.Context(), v.Id); err != nil {
		t.Fatal(err)
	}
	// Bars travel to where they belong: none is measured on its way.
	// Checks of the film go on after it is ready, and on a busy machine the victim had one
	// of them in hand as well: the page has settled when all steps are done.
	const settledPage = `document.getElementById('video').dataset.state === 'ready' && /^(\d+) of \1 steps done/.test(document.getElementById('journey-sum').textContent) && !document.getAnimations().some((a) => a instanceof CSSTransition) && document.getElementById('cost-sum').textContent.startsWith('Cost:') ? 1 : -1`
	await(t, tab, settledPage)
	judge(t, readPage(t, tab))
	walk(t, tab)
	press(t, tab, `#journey-table summary`, kb.Enter)
	press(t, tab, `#cost summary`, kb.Enter)
	inspect(t, tab, "journey-opened")
	for _, sight := range []sight{{"light", 360}, {"dark", 768}, {"light", 1280}, {"dark", 1920}} {
		sight.set(t, tab)
		shootJourney(t, tab, fmt.Sprintf("%s-%d", sight.scheme, sight.width))
		if w := readPage(t, tab); w.Wide {
			t.Errorf("at %d pixels the page is wider than its window", sight.width)
		}
	}
	if errors := said.take(); len(errors) > 0 {
		t.Errorf("the console says\n%s", strings.Join(errors, "\n"))
	}
}

func shootJourney(t *testing.T, tab context.Context, name string) {
	t.Helper()
	if _, err := chromedp.Run(tab, chromedp.Evaluate[any](toJourney)); err != nil {
		t.Fatal(err)
	}
	shoot(t, tab, "journey-"+name)
}

// judge looks at the waterfall of a video all of whose steps are done. Its chunk was lost
// with the worker, and perhaps what else that worker had in hand.
func judge(t *testing.T, w waterfall) {
	t.Helper()
	kinds := map[string]int{}
	for _, bar := range w.Bars {
		kinds[bar.Kind]++
		if bar.Left < bar.TrackLeft-1 || bar.Right > bar.TrackTo+4 || bar.Right <= bar.Left {
			t.Errorf("%s is drawn from %.1f to %.1f, outside its track from %.1f to %.1f, or is nothing", bar.Words, bar.Left, bar.Right, bar.TrackLeft, bar.TrackTo)
		}
		if bar.Words == "" || !strings.HasPrefix(bar.Words, bar.Row) {
			t.Errorf("a bar of %s says %q", bar.Row, bar.Words)
		}
	}
	t.Logf("%s %s; bars: %v", w.Sum, w.Cost, kinds)
	if kinds["running"] != 0 || kinds["waiting"] == 0 || kinds["done"] < 5 {
		t.Errorf("bars %v: want done ones, waits, and nothing that runs", kinds)
	}
	lost, chunks := 0, 0
	for i, bar := range w.Bars {
		if bar.Kind == "lost" {
			lost++
			if strings.HasPrefix(bar.Row, "encode") {
				chunks++
			}
			judgeLost(t, w, i)
		}
	}
	if chunks != 1 {
		t.Errorf("%d chunks were lost with the worker, want 1", chunks)
	}
	if rows := strings.Join(w.Table, "\n"); len(lostRow.FindAllString(rows, -1)) != lost {
		t.Errorf("the table tells of other than %d lost attempts:\n%s", lost, rows)
	}
	attempts := map[bool]string{true: "1 attempt ", false: fmt.Sprintf("%d attempts ", lost)}[lost == 1]
	if !strings.Contains(w.Sum, attempts+"lost and made again") {
		t.Errorf("%d attempts were lost, and the summary is %q", lost, w.Sum)
	}
	if !strings.Contains(w.Cost, "Cost: $0.") || strings.Contains(w.Cost, " 0 storage requests") || !strings.HasPrefix(w.Missing, attempts) {
		t.Errorf("%d attempts were lost; the cost is %q, %q", lost, w.Cost, w.Missing)
	}
	if w.Stops != 1 || w.Owned {
		t.Errorf("%d bars in the order of the tab key, want 1; a stranger's text became markup: %t", w.Stops, w.Owned)
	}
}

var (
	lostRow   = regexp.MustCompile(`\|lost\|\d+\|victim\|`)
	attemptOf = regexp.MustCompile(`attempt (\d+) by (\S+) `)
)

// judgeLost looks at the bar of a lost attempt: a later one is beside it, and done.
func judgeLost(t *testing.T, w waterfall, lost int) {
	t.Helper()
	a := w.Bars[lost]
	for _, b := range w.Bars[lost+1:] {
		if b.Row != a.Row || b.Kind != "done" {
			continue
		}
		// The lost attempt is not the first where earlier ones were interrupted.
		gone, done := attemptOf.FindStringSubmatch(a.Words), attemptOf.FindStringSubmatch(b.Words)
		if b.Left < a.Right-1 || gone == nil || gone[2] != "victim," || done == nil || number(t, done[1]) <= number(t, gone[1]) {
			t.Errorf("the lost attempt %q ends at %.1f, the next, %q, begins at %.1f", a.Words, a.Right, b.Words, b.Left)
		}
		return
	}
	t.Errorf("no attempt of %s is done after the lost one", a.Row)
}

func number(t *testing.T, digits string) int {
	t.Helper()
	n, err := strconv.Atoi(digits)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// walk goes through the bars by keyboard, and reads what is said of each.
func walk(t *testing.T, tab context.Context) {
	t.Helper()
	const said = `(() => { const bar = document.activeElement; return bar.classList.contains('bar') && bar.getAttribute('aria-label') === document.getElementById('journey-words').textContent ? bar.getAttribute('aria-label') : ''; })()`
	if err := chromedp.Do(tab, chromedp.Focus(`#waterfall .bar[tabindex="0"]`)); err != nil {
		t.Fatal(err)
	}
	heard := map[string]bool{}
	for _, key := range []string{"", kb.ArrowDown, kb.ArrowDown, kb.ArrowRight, kb.ArrowUp, kb.End, kb.Home} {
		if key != "" {
			if err := chromedp.Do(tab, chromedp.KeyEvent(key)); err != nil {
				t.Fatal(err)
			}
		}
		words, err := chromedp.Run(tab, chromedp.Evaluate[string](said))
		if err != nil || words == "" {
			where, _ := chromedp.Run(tab, chromedp.Evaluate[string](`document.activeElement.outerHTML.slice(0, 200) + ' ' + document.hasFocus() + ' ' + document.getElementById('journey-words').textContent`))
			t.Fatalf("after key %q no bar has the focus and is told: %v, %s", key, err, where)
		}
		heard[words] = true
	}
	if len(heard) < 4 {
		t.Errorf("the keys lead to %d bars: %v", len(heard), heard)
	}
}
