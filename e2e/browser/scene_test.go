package browser_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/cutroom/cutroom/e2e/lab"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/scene"
)

// playThrough plays the scene of a page by keyboard, without pauses, to its end.
func playThrough(t *testing.T, tab context.Context) {
	t.Helper()
	truth(t, tab, `document.getElementById('go')?.textContent === 'Start'`)
	press(t, tab, "#go", kb.Enter)
	for range 3 {
		press(t, tab, "#faster", kb.Enter)
	}
	truth(t, tab, `document.querySelector('#told .end')`)
	if end := eval[string](t, tab, `document.querySelector('#told .end').textContent`); end != "Everything that was told was true." {
		t.Errorf("the scene ends with %q", end)
	}
	if n := eval[float64](t, tab, `document.querySelectorAll('#sequence .arrow').length`); n < 4 {
		t.Errorf("the diagram has %v arrows, there and back", n)
	}
}

// answer chooses a key by answering the questions of the scene with the keyboard.
func answer(t *testing.T, tab context.Context, s *lab.Stack) {
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
	truth(t, tab, `document.querySelectorAll('#told .claim').length === 8`) // four tables of Cutroom
}

// TestPlayASceneInThePage: three scenes, of queues, tables and blobs. One is begun, stepped through, hastened and played again
// by keyboard; its diagram and its sentences grow; and the page is good to look at,
// wide and narrow, light and dark.
func TestPlayASceneInThePage(t *testing.T) {
	s, err := lab.Start(t.Context(), stacktest.Complete(t, stack.Options{Workers: 1}))
	if err != nil {
		t.Fatal(err)
	}
	stacktest.StopAfter(t, s.Stack, s.Stop)
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
			look.at(t, visited{"scene " + sc.Name, "/learn/" + sc.Name, `#go`, 60_000}, sight)
		}
	}
	if errors := said.take(); len(errors) > 0 {
		t.Errorf("the console says\n%s", strings.Join(errors, "\n"))
	}
	t.Run("broken off", func(t *testing.T) { brokenOff(t, tab, s) })
}

// brokenOff loads a page again in the middle of a scene, and then takes the network away:
// the page shows the same run and goes on with it.
func brokenOff(t *testing.T, tab context.Context, s *lab.Stack) {
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
