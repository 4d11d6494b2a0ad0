package browser_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/cutroom/cutroom/e2e/lab"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
)

// TestPlayASceneInThePage: a scene is begun, stepped through, hastened and played again
// by keyboard; its diagram and its sentences grow; and the page is good to look at,
// wide and narrow, light and dark.
func TestPlayASceneInThePage(t *testing.T) {
	s, err := lab.Start(t.Context(), stacktest.Complete(t, stack.Options{Workers: 1}))
	if err != nil {
		t.Fatal(err)
	}
	stacktest.StopAfter(t, s.Stack, s.Stop)
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	axe, err := os.ReadFile(filepath.Join(root, "webrole/web/node_modules/axe-core/axe.min.js"))
	if err != nil {
		t.Fatalf("%v: `scripts/bootstrap test` installs it", err)
	}
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
		if found := findings(t, tab, string(axe)); len(found) > 0 {
			t.Errorf("%s: axe found\n%s", name, strings.Join(found, "\n"))
		}
		if beyond := eval[float64](t, tab, `document.documentElement.scrollWidth - innerWidth`); beyond > 0 {
			t.Errorf("%s: %.0f pixels beyond the edge", name, beyond)
		}
	}
	press(t, tab, "#again", kb.Enter)
	truth(t, tab, `document.querySelectorAll('#told li').length < 5`)
	truth(t, tab, `document.querySelector('#told .end')`)
	if errors := said.take(); len(errors) > 0 {
		t.Errorf("the console says\n%s", strings.Join(errors, "\n"))
	}
}
