package browser_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
)

// everySight is how the path is looked at.
var everySight = []sight{{"dark", 390}, {"light", 390}, {"dark", 1440}, {"light", 1440}}

// chooseAnswer chooses an answer to the question of a stop by keyboard, and sends it.
func chooseAnswer(t *testing.T, tab context.Context, answer int) {
	t.Helper()
	reach(t, tab, `[name=answer]`)
	typeKeys(t, tab, " ")
	for range 5 {
		if eval[string](t, tab, `document.querySelector('[name=answer]:checked').value`) == fmt.Sprint(answer) {
			press(t, tab, `form.question button`, kb.Enter)
			truth(t, tab, fmt.Sprintf(`location.search === '?answer=%d' && document.activeElement.id === 'answer'`, answer))
			return
		}
		typeKeys(t, tab, kb.ArrowDown)
	}
	t.Fatalf("the arrows do not lead to answer %d", answer)
}

// TestThePath: the seven stops in order, by keyboard alone, with a wrong and the right answer at
// each. Narrow and wide, light and dark there is nothing to find for axe, and nothing beyond the
// edge. Ticks stay when the page is loaded again. This stack has no lab, which each stop says:
// see TestKillAWorkerFromTheBoard.
func TestThePath(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stack.Options{Workers: 1})
	tab := open(t)
	said := listen(t, tab)
	visit(t, tab, s.BaseURL()+"/learn")
	inspect(t, tab, "path-begin", everySight...)
	press(t, tab, `a.primary[href="/learn/path/1"]`, kb.Enter)
	for i, right := range []int{2, 2, 1, 1, 1, 1, 1} {
		stop := i + 1
		before, after := everySight[i%2:i%2+1], everySight[2+i%2:3+i%2] // narrow, then wide
		if stop == 1 {
			before, after = everySight, everySight
		}
		truth(t, tab, fmt.Sprintf(`location.pathname === '/learn/path/%d' && document.querySelector('form.question')`, stop))
		truth(t, tab, `document.querySelector('.missing').textContent.includes('make demo')`)
		chooseAnswer(t, tab, 0)
		truth(t, tab, `document.querySelector('#answer.wrong').textContent.startsWith('✗ No. ') && !document.querySelector('.crumb .tick')`)
		inspect(t, tab, fmt.Sprintf("path-%d-wrong", stop), before...)
		chooseAnswer(t, tab, right)
		truth(t, tab, `document.querySelector('#answer.right').textContent.startsWith('✓ Right. ') && document.querySelector('.crumb .tick')`)
		inspect(t, tab, fmt.Sprintf("path-%d-right", stop), after...)
		if stop < 7 {
			press(t, tab, fmt.Sprintf(`nav.stops a[href="/learn/path/%d"]`, stop+1), kb.Enter)
		}
	}
	if err := chromedp.Do(tab, chromedp.Reload()); err != nil {
		t.Fatal(err)
	}
	truth(t, tab, `document.querySelector('.crumb .tick')`)
	press(t, tab, `.crumb a`, kb.Enter)
	truth(t, tab, `location.pathname === '/learn' && document.querySelectorAll('.learn-cards .tick').length === 7`)
	inspect(t, tab, "path-end", everySight...)
	if err := chromedp.Do(tab, chromedp.Reload()); err != nil {
		t.Fatal(err)
	}
	truth(t, tab, `document.querySelectorAll('.learn-cards .tick').length === 7`)
	if seen := eval[string](t, tab, `document.cookie`); seen != "" {
		t.Errorf("scripts see the cookie: %q", seen)
	}
	t.Run("calculators", func(t *testing.T) { calculate(t, tab, s.BaseURL()) })
	if errors := said.take(); len(errors) > 0 {
		t.Errorf("the console says\n%s", strings.Join(errors, "\n"))
	}
}

// calculate asks a calculator by keyboard, and types what is no number into its address.
func calculate(t *testing.T, tab context.Context, base string) {
	press(t, tab, `a[href="/learn/calculators"]`, kb.Enter)
	truth(t, tab, `document.getElementById('peak')`)
	reach(t, tab, "#peak")
	retype(t, tab, "7000"+kb.Enter)
	truth(t, tab, `location.hash === '#suffixes' && document.querySelector('#suffixes dd').textContent === '8, key~0 to key~7'`)
	inspect(t, tab, "calculators", everySight...)
	visit(t, tab, base+"/learn/calculators?peak=-5&zmin=1e9")
	truth(t, tab, `document.querySelectorAll('[aria-invalid]').length === 2 && !document.querySelector('#suffixes dl')`)
	inspect(t, tab, "calculators-wrong", everySight[1:3]...)
}
