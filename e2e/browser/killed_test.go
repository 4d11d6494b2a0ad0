package browser_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
)

// weigh counts what a page sends to storage: bytes that are on their way or there, and
// those that storage has taken. What would exceed so many bytes waits for ever.
func weigh(most int) string {
	return fmt.Sprintf(`(() => {
  const real = window.fetch;
  window.begun = window.taken = 0;
  window.fetch = async (url, options) => {
    const away = options?.method === 'PUT' && new URL(url, location.href).origin !== location.origin;
    if (!away) return real(url, options);
    const bytes = options.body.byteLength ?? options.body.size;
    if (window.begun + bytes > %d) await new Promise(() => {});
    window.begun += bytes;
    const answer = await real(url, options);
    if (answer.status === 201) window.taken += bytes;
    return answer;
  };
})(); null`, most)
}

// largeFile is a video of a few seconds that is followed by zeros.
func largeFile(t *testing.T, size int64) string { return padded(t, clip(t, 5), size) }

// padded is a copy of a video that is followed by zeros.
func padded(t *testing.T, film string, size int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "large.mp4")
	head, err := os.ReadFile(film)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, head, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestUploadGoesOnAfterTheBrowserWasKilled: the browser gets SIGKILL two seconds after an
// upload of 40 MiB began, and when nine tenths of it are there.
func TestUploadGoesOnAfterTheBrowserWasKilled(t *testing.T) {
	t.Parallel()
	const size = 40 << 20
	s := stacktest.Start(t, stack.Options{})
	path := largeFile(t, size)
	t.Run("after 2 s", func(t *testing.T) {
		// At most five eighths, for a machine on which two seconds last longer.
		killedBrowser(t, s, path, size, size*5/8, func(_ context.Context, began time.Time) {
			time.Sleep(time.Until(began.Add(2 * time.Second))) // the moment that the issue names
		})
	})
	t.Run("at 90 %", func(t *testing.T) {
		killedBrowser(t, s, path, size, size-1, func(tab context.Context, _ time.Time) {
			until(t, tab, "so much is there", fmt.Sprintf(`window.taken >= %d`, size*9/10))
		})
	})
}

// killedBrowser begins an upload, at most so many bytes of it, and kills the browser when
// moment returns. Another process with the same profile, in which the same file is chosen,
// makes no second video and sends nothing again but what was in flight.
func killedBrowser(t *testing.T, s *stack.Stack, path string, size, enough int, moment func(tab context.Context, began time.Time)) {
	const block, inFlight = 4 << 20, 4
	profile := t.TempDir()
	begin := func(most int) (context.Context, time.Time) {
		t.Helper()
		tab := openAs(t, profile)
		visit(t, tab, s.BaseURL()+"/upload")
		eval[any](t, tab, weigh(most))
		if err := chromedp.Do(tab, chromedp.SetUploadFiles(`#file`, []string{path})); err != nil {
			t.Fatal(err)
		}
		until(t, tab, "the file can be sent", `!document.getElementById('send').disabled`)
		return tab, time.Now()
	}
	type sums struct {
		Begun, Taken float64
		ID           string
	}
	look := func(tab context.Context) sums {
		t.Helper()
		return eval[sums](t, tab, `({ Begun: window.begun, Taken: window.taken, ID: document.querySelector('#files li').dataset.id ?? '' })`)
	}

	first, began := begin(enough)
	slow := network.EmulateNetworkConditionsByRuleParams{MatchedNetworkConditions: []*network.Conditions{{DownloadThroughput: -1, UploadThroughput: 10 << 20}}}
	if _, err := chromedp.Call(first, network.EmulateNetworkConditionsByRule, slow); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(first, chromedp.Focus(`#send`), chromedp.KeyEvent(kb.Enter)); err != nil {
		t.Fatal(err)
	}
	until(t, first, "storage holds some of it", `window.taken > 0`)
	moment(first, began)
	before := look(first)
	process := chromedp.FromContext(first).Browser.Process()
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	if before.Taken == 0 || before.Begun >= float64(size) {
		t.Fatalf("the browser was killed with %.0f of %d bytes there and %.0f begun: not in the middle", before.Taken, size, before.Begun)
	}

	second, _ := begin(size)
	until(t, second, "the page names what is not finished", `document.getElementById('unfinished').textContent.includes('large.mp4')`)
	if err := chromedp.Do(second, chromedp.Focus(`#send`), chromedp.KeyEvent(kb.Enter)); err != nil {
		t.Fatal(err)
	}
	until(t, second, "the page says that it goes on", `document.querySelector('#files').textContent.includes('Going on at') || document.querySelector('#files [data-phase=making], #files [data-phase=settled]')`)
	shoot(t, second, "killed-goes-on")
	until(t, second, "it is sent", `document.querySelector('#files [data-phase=making], #files [data-phase=settled]')`)
	after := look(second)
	t.Logf("killed with %.0f MiB there and %.0f begun; then %.0f MiB were sent", before.Taken/(1<<20), before.Begun/(1<<20), after.Begun/(1<<20))
	if after.ID != before.ID {
		t.Errorf("the second browser made video %s, the first %s", after.ID, before.ID)
	}
	if again := before.Taken + after.Begun - float64(size); again > 0 {
		t.Errorf("%.0f bytes were sent again that storage had confirmed", again)
	}
	if twice := before.Begun + after.Begun - float64(size); twice > inFlight*block {
		t.Errorf("%.0f bytes were sent twice, want at most %d blocks in flight", twice, inFlight)
	}
	if left := eval[string](t, second, `document.getElementById('status').textContent`); !strings.Contains(left, "uploaded") {
		t.Errorf("the page says %q", left)
	}
}
