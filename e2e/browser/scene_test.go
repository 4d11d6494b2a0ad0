package browser_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/cutroom/cutroom/e2e/lab"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/scene"
)

// allTrue is how a scene ends whose every claim held.
const allTrue = "Everything that was told was true."

// playThrough guesses how the scene of a page goes, and plays it by keyboard, without pauses,
// to its end.
func playThrough(t *testing.T, tab context.Context) {
	t.Helper()
	truth(t, tab, `document.getElementById('guess')`)
	eval[any](t, tab, `(() => { const g = document.getElementById('guess'); g.querySelector('input[value="' + g.dataset.right + '"]').click(); })() ?? null`)
	begin(t, tab)
	if end := ended(t, tab); end != allTrue {
		t.Errorf("the scene ends with %q", end)
	}
	if n := eval[float64](t, tab, `document.querySelectorAll('#sequence .arrow').length`); n < 4 {
		t.Errorf("the diagram has %v arrows, there and back", n)
	}
	if said := eval[string](t, tab, `document.querySelector('#told .guessed')?.textContent ?? ''`); !strings.HasPrefix(said, "You were right: ") {
		t.Errorf("of the right guess the page says %q", said)
	}
}

// begin starts the scene of a page by keyboard, without pauses.
func begin(t *testing.T, tab context.Context) {
	t.Helper()
	truth(t, tab, `document.getElementById('go')?.textContent === 'Start'`)
	press(t, tab, "#go", kb.Enter)
	for range 3 {
		press(t, tab, "#faster", kb.Enter)
	}
}

// ended waits for the end of the scene, and returns what the page says of it.
func ended(t *testing.T, tab context.Context) string {
	t.Helper()
	truth(t, tab, `document.querySelector('#told .end')`)
	return eval[string](t, tab, `document.querySelector('#told .end').textContent`)
}

// shownIsTold compares the list of a page with what the scene told: every event, in
// order, by its words.
const shownIsTold = `(async () => {
  const run = new URLSearchParams(location.hash.slice(1)).get('run');
  const { events } = await (await fetch('/api/v1/lab/scene-runs/' + run)).json();
  const lines = [...document.querySelectorAll('#told li')];
  if (lines.length !== events.length || lines.length < 6) return lines.length + ' lines for ' + events.length + ' events';
  const lacking = events.findIndex((e, i) => !lines[i].textContent.includes(e.text));
  return lacking < 0 ? '' : 'line ' + lacking + ' is ' + lines[lacking].textContent + ', told was ' + events[lacking].text;
})()`

// TestEveryScenePlaysInThePage: each is begun by keyboard, four at a time in as many
// browsers. Its page shows all that it tells, in order, and axe finds nothing in what is
// there at the end.
func TestEveryScenePlaysInThePage(t *testing.T) {
	t.Parallel()
	s, err := lab.Start(t.Context(), stacktest.Complete(t, stack.Options{Workers: 1}))
	if err != nil {
		t.Fatal(err)
	}
	stacktest.StopAfter(t, s)
	sights := []sight{{"light", 1440}, {"dark", 360}, {"dark", 1440}, {"light", 360}}
	tabs := make(chan visitor, len(sights)) // the lab plays as many at a time
	browser := open(t)
	for _, sight := range sights {
		tab, closeTab := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
		defer closeTab()
		sight.set(t, tab)
		tabs <- visitor{tab: tab, base: s.BaseURL(), said: listen(t, tab)}
	}
	var playing sync.WaitGroup
	for _, sc := range scene.All() {
		v := <-tabs
		playing.Go(func() {
			defer func() { tabs <- v }()
			t.Run(sc.Name, func(t *testing.T) { v.plays(t, sc.Name) })
		})
	}
	playing.Wait()
}

// plays plays a scene and looks at what is there at its end.
func (v visitor) plays(t *testing.T, name string) {
	visit(t, v.tab, v.base+"/learn/"+name)
	begin(t, v.tab)
	if end := ended(t, v.tab); end != allTrue {
		// Leases are of seconds. A machine that stands still for longer than one makes a
		// true sentence false, once, and a mistake makes it so again.
		t.Logf("played again, because it ended with %q", end)
		v.said.take()
		press(t, v.tab, "#again", kb.Enter)
		truth(t, v.tab, `document.querySelectorAll('#told li').length < 5`)
		if end := ended(t, v.tab); end != allTrue {
			t.Errorf("it ends with %q", end)
		}
	}
	if wrong := eval[string](t, v.tab, shownIsTold); wrong != "" {
		t.Error(wrong)
	}
	if n := eval[float64](t, v.tab, `document.querySelectorAll('#sequence .arrow').length`); n < 4 {
		t.Errorf("the diagram has %v arrows, there and back", n)
	}
	if n := eval[float64](t, v.tab, `document.querySelectorAll('#told .claim.false').length`); n > 0 {
		t.Errorf("%v claims do not hold", n)
	}
	if beyond := eval[float64](t, v.tab, `document.documentElement.scrollWidth - innerWidth`); beyond > 0 {
		t.Errorf("%.0f pixels beyond the edge", beyond)
	}
	shoot(t, v.tab, "played-"+name)
	if found := findings(t, v.tab); len(found) > 0 {
		t.Errorf("axe found\n%s", strings.Join(found, "\n"))
	}
	if errors := v.said.take(); len(errors) > 0 {
		t.Errorf("the console says\n%s", strings.Join(errors, "\n"))
	}
}

// TestOperatorsPlayScenesFromAnywhere: where others reach the web role, a scene's page
// plays for an operator, tells a viewer who is allowed to, and no one can break the stack.
func TestOperatorsPlayScenesFromAnywhere(t *testing.T) {
	t.Parallel()
	const token = "token-of-this-test-only"
	s, err := lab.Start(t.Context(), stacktest.Complete(t, stack.Options{
		Workers: 1, WebAddr: "0.0.0.0:0", Env: []string{"WEBROLE_TOKEN=" + token, "WEBROLE_ANONYMOUS=on"},
	}))
	if err != nil {
		t.Fatal(err)
	}
	stacktest.StopAfter(t, s)
	operator, viewer := open(t), open(t)
	showing(t, operator, token)

	const page = "/learn/keys-are-text"
	visit(t, viewer, s.BaseURL()+page)
	truth(t, viewer, `document.querySelector('.notice').textContent.includes('Operators can play') && !document.getElementById('go')`)
	inspect(t, viewer, "scene-for-a-viewer")
	visit(t, operator, s.BaseURL()+page)
	playThrough(t, operator)
	for _, asked := range []struct {
		client       http.RoundTripper
		method, path string
		want         int
	}{
		{bearer(token), http.MethodPost, "/lab/scenes/keys-are-text", http.StatusAccepted},
		{bearer(token), http.MethodPost, "/lab/storage", http.StatusNotFound},
		{bearer(token), http.MethodGet, "/lab", http.StatusNotFound},
		{http.DefaultTransport, http.MethodPost, "/lab/scenes/keys-are-text", http.StatusUnauthorized},
		{http.DefaultTransport, http.MethodPost, "/lab/storage", http.StatusNotFound},
	} {
		r, err := http.NewRequestWithContext(t.Context(), asked.method, s.BaseURL()+"/api/v1"+asked.path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		answer, err := asked.client.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != asked.want {
			t.Errorf("%s %s is answered %d, want %d", asked.method, asked.path, answer.StatusCode, asked.want)
		}
	}
}

// answer chooses a key by answering the questions of the scene with the keyboard.
func answer(t *testing.T, tab context.Context, s *stack.Stack) {
	t.Helper()
	visit(t, tab, s.BaseURL()+"/learn/choosing-a-key")
	press(t, tab, `[name=knows]`, " ")
	press(t, tab, `[name=together]`, " ")
	press(t, tab, `[name=busy]`, kb.ArrowDown+kb.ArrowDown) // from a few to thousands
	if got := eval[string](t, tab, `[...document.querySelectorAll('#questions :checked')].map((i) => i.value).join(' ')`); got != "subject yes thousands" {
		t.Fatalf("the keyboard chose %q", got)
	}
	for _, sight := range []sight{{"light", 1440}, {"dark", 360}} {
		sight.set(t, tab)
		name := fmt.Sprintf("questions-%s-%d", sight.scheme, sight.width)
		shoot(t, tab, name)
		if found := findings(t, tab); len(found) > 0 {
			t.Errorf("%s: axe found\n%s", name, strings.Join(found, "\n"))
		}
		if beyond := eval[float64](t, tab, `document.documentElement.scrollWidth - innerWidth`); beyond > 0 {
			t.Errorf("%s: %.0f pixels beyond the edge", name, beyond)
		}
	}
	playThrough(t, tab)
	if key := eval[string](t, tab, `document.querySelector('#told .claim').textContent`); !strings.HasPrefix(key, "some, with a suffix: PartitionKey subject~<0…7>") {
		t.Errorf("these answers lead to %q", key)
	}
	shoot(t, tab, "questions-answered")
	press(t, tab, `#questions [type=reset]`, kb.Enter)
	press(t, tab, "#again", kb.Enter)
	truth(t, tab, `document.querySelector('#told .end')`)
	truth(t, tab, `document.querySelectorAll('#told .claim').length === 11`) // two of each of five tables, and one of a wrong answer
}

// TestPlayASceneInThePage: three scenes, of queues, tables and blobs. One is begun, stepped through, hastened and played again
// by keyboard; its diagram and its sentences grow; and the page is good to look at,
// wide and narrow, light and dark.
func TestPlayASceneInThePage(t *testing.T) {
	t.Parallel()
	s, err := lab.Start(t.Context(), stacktest.Complete(t, stack.Options{Workers: 1}))
	if err != nil {
		t.Fatal(err)
	}
	stacktest.StopAfter(t, s)
	tab := open(t)
	said := listen(t, tab)
	sight{"light", 1440}.set(t, tab)
	if err := chromedp.Do(tab, chromedp.Navigate(s.BaseURL()+"/learn/papers-scene"), chromedp.WaitVisible(`#go`)); err != nil {
		t.Fatal(err)
	}
	shoot(t, tab, "scene-before")
	press(t, tab, "#go", kb.Enter)
	truth(t, tab, `document.querySelectorAll('#told li').length >= 2`)
	press(t, tab, "#go", kb.Enter) // pause
	truth(t, tab, `document.querySelector('#go').textContent === 'Go on'`)
	seen := eval[float64](t, tab, `document.querySelectorAll('#told li').length`)
	press(t, tab, "#next", kb.Enter)
	truth(t, tab, fmt.Sprintf(`document.querySelectorAll('#told li').length === %v`, seen+1))
	press(t, tab, "#go", kb.Enter) // go on
	for range 3 {
		press(t, tab, "#faster", kb.Enter)
	}
	truth(t, tab, `document.querySelector('#told .end')`)
	if end := eval[string](t, tab, `document.querySelector('#told .end').textContent`); end != "Everything that was told was true." {
		t.Errorf("the scene ends with %q", end)
	}
	if n := eval[float64](t, tab, `document.querySelectorAll('#sequence .arrow').length`); n < 14 {
		t.Errorf("the diagram has %v arrows, there and back", n)
	}
	for _, sight := range []sight{{"light", 1440}, {"dark", 360}, {"light", 360}, {"dark", 1440}} {
		sight.set(t, tab)
		name := fmt.Sprintf("scene-%s-%d", sight.scheme, sight.width)
		shoot(t, tab, name)
		if found := findings(t, tab); len(found) > 0 {
			t.Errorf("%s: axe found\n%s", name, strings.Join(found, "\n"))
		}
		if beyond := eval[float64](t, tab, `document.documentElement.scrollWidth - innerWidth`); beyond > 0 {
			t.Errorf("%s: %.0f pixels beyond the edge", name, beyond)
		}
	}
	press(t, tab, "#again", kb.Enter)
	truth(t, tab, `document.querySelectorAll('#told li').length < 5`)
	truth(t, tab, `document.querySelector('#told .end')`)
	t.Run("questionnaire", func(t *testing.T) { answer(t, tab, s) })
	t.Run("blobs", func(t *testing.T) {
		visit(t, tab, s.BaseURL()+"/learn")
		press(t, tab, `a[href="/learn/corrupted-and-split"]`, kb.Enter)
		playThrough(t, tab)
	})
	look := visitor{tab: tab, base: s.BaseURL(), said: said}
	for _, sight := range []sight{{"dark", 360}, {"light", 1440}} {
		sight.set(t, tab)
		for _, sc := range scene.All() {
			look.at(t, visited{"scene " + sc.Name, "/learn/" + sc.Name, `#go`, 60_000, false}, sight)
		}
	}
	if errors := said.take(); len(errors) > 0 {
		t.Errorf("the console says\n%s", strings.Join(errors, "\n"))
	}
	t.Run("broken off", func(t *testing.T) { brokenOff(t, tab, s) })
}

// brokenOff loads a page again in the middle of a scene, and then takes the network away:
// the page shows the same run and goes on with it.
func brokenOff(t *testing.T, tab context.Context, s *stack.Stack) {
	visit(t, tab, s.BaseURL()+"/learn/papers-scene")
	press(t, tab, "#go", kb.Enter)
	truth(t, tab, `document.querySelectorAll('#told li').length >= 3`)
	run := eval[string](t, tab, `location.hash`)
	if !strings.HasPrefix(run, "#run=") {
		t.Fatalf("the address ends with %q, want the run", run)
	}
	if err := chromedp.Do(tab, chromedp.Reload()); err != nil {
		t.Fatal(err)
	}
	truth(t, tab, `document.querySelectorAll('#told li').length >= 2`)
	if again := eval[string](t, tab, `location.hash`); again != run {
		t.Errorf("the page that was loaded again shows %q, want %q", again, run)
	}
	offline := func(off bool) {
		rule := network.EmulateNetworkConditionsByRuleParams{MatchedNetworkConditions: []*network.Conditions{{DownloadThroughput: -1, UploadThroughput: -1, Offline: off}}}
		if _, err := chromedp.Call(tab, network.EmulateNetworkConditionsByRule, rule); err != nil {
			t.Fatal(err)
		}
	}
	offline(true)
	for range 3 {
		press(t, tab, "#faster", kb.Enter)
	}
	truth(t, tab, `document.body.textContent.includes('No answer. Asking again')`)
	offline(false)
	truth(t, tab, `document.querySelector('#told .end')`)
	if end := eval[string](t, tab, `document.querySelector('#told .end').textContent`); end != "Everything that was told was true." {
		t.Errorf("the scene ends with %q", end)
	}
}
