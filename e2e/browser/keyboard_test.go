package browser_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// focused says what has the focus, and whether one can see that.
const focused = `(() => {
  const at = document.activeElement, hit = at?.matches(%q) ?? false;
  const ring = (e) => e && getComputedStyle(e).outlineStyle !== 'none' && parseFloat(getComputedStyle(e).outlineWidth) > 0;
  const box = at?.getBoundingClientRect();
  return { Hit: hit, Token: at?.matches('#board .token') ?? false, Seen: ring(at) || ring(at?.labels?.[0]), Within: !box || (box.bottom > 0 && box.top < innerHeight),
    What: at ? at.tagName.toLowerCase() + (at.id ? '#' + at.id : '') + ' ' + (at.getAttribute('aria-label') ?? at.textContent ?? '').trim().slice(0, 30) : '' };
})()`

// reach presses Tab until what a selector names has the focus, as people do who have no
// pointer; where the focus is one of the board's tokens, arrows. What cannot be reached,
// or has a focus that cannot be seen, fails the test.
func reach(t *testing.T, tab context.Context, selector string) {
	t.Helper()
	var way []string
	among := false // tokens
	for began := time.Now(); ; {
		at := eval[struct {
			Hit, Seen, Within, Token bool
			What                     string
		}](t, tab, fmt.Sprintf(focused, selector))
		if at.Hit {
			if !at.Seen || !at.Within {
				t.Errorf("%s has the focus, and cannot be seen (in the window: %t)", selector, at.Within)
			}
			return
		}
		way = append(way, at.What)
		if azuritetest.Late(began, time.Minute) || len(way) > 600 {
			shoot(t, tab, "unreachable")
			t.Fatalf("Tab does not lead to %s; it led to %s", selector, strings.Join(way[max(0, len(way)-60):], " → "))
		}
		key := kb.Tab
		if strings.Contains(selector, ".token") && at.Token {
			key = kb.ArrowLeft
			if !among {
				key = kb.End
			}
		}
		among = at.Token
		typeKeys(t, tab, key)
	}
}

// press reaches an element by Tab and presses a key there.
func press(t *testing.T, tab context.Context, selector, key string) {
	t.Helper()
	reach(t, tab, selector)
	typeKeys(t, tab, key)
}

// typeKeys types where the focus is.
func typeKeys(t *testing.T, tab context.Context, keys string) {
	t.Helper()
	if err := chromedp.Do(tab, chromedp.KeyEvent(keys)); err != nil {
		t.Fatalf("type %q: %v", keys, err)
	}
}

// retype replaces what is in the field that has the focus.
func retype(t *testing.T, tab context.Context, text string) {
	t.Helper()
	if err := chromedp.Do(tab, chromedp.KeyEvent("a", chromedp.KeyModifiers(chromedp.ModifierCtrl)), chromedp.KeyEvent(text)); err != nil {
		t.Fatalf("type %q: %v", text, err)
	}
}

// chooseFiles opens the dialog of a file field with Space and chooses there.
func chooseFiles(t *testing.T, tab context.Context, selector string, files ...string) {
	t.Helper()
	on := true
	if _, err := chromedp.Call(tab, page.SetInterceptFileChooserDialog, page.SetInterceptFileChooserDialogParams{Enabled: on}); err != nil {
		t.Fatal(err)
	}
	opened := make(chan *page.EventFileChooserOpened, 1)
	listening, stop := context.WithCancel(tab)
	defer stop()
	if err := chromedp.Listen(listening, func(event any) {
		if e, is := event.(*page.EventFileChooserOpened); is {
			select {
			case opened <- e:
			default:
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	press(t, tab, selector, " ")
	select {
	case e := <-opened:
		if _, err := chromedp.Call(tab, dom.SetFileInputFiles, dom.SetFileInputFilesParams{Files: files, BackendNodeID: e.BackendNodeID}); err != nil {
			t.Fatalf("choose %v: %v", files, err)
		}
	case <-time.After(azuritetest.Patience(10 * time.Second)):
		t.Fatalf("Space in %s opens no dialog", selector)
	}
	if _, err := chromedp.Call(tab, page.SetInterceptFileChooserDialog, page.SetInterceptFileChooserDialogParams{}); err != nil {
		t.Fatal(err)
	}
}
