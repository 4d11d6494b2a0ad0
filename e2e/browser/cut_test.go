package browser_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// How a request of the page is cut.
const (
	beforeServer = "before the server acted"
	afterServer  = "after the server acted"
	unanswered   = "by an answer that never comes"
)

// cutting cuts one request of a page, the one of that number. In the last case what the page
// waits for an answer is shortened.
func cutting(number int, how string) string {
	return fmt.Sprintf(`(() => {
  const real = window.fetch, how = %q, patience = AbortSignal.timeout.bind(AbortSignal);
  let n = 0;
  window.cut = '';
  if (how === %q) AbortSignal.timeout = (ms) => patience(Math.min(ms, %d));
  window.fetch = async (url, options = {}) => {
    if (n++ !== %d) return real(url, options);
    window.cut = (options.method || 'GET') + ' ' + new URL(url, location).pathname;
    if (how === %q) throw new TypeError('Failed to fetch');
    if (how === %q) { await real(url, options); throw new TypeError('Failed to fetch'); }
    return new Promise((_, fail) => options.signal.addEventListener('abort', () => fail(options.signal.reason)));
  };
})(); null`, how, unanswered, azuritetest.Patience(4*time.Second).Milliseconds(), number, beforeServer, afterServer)
}

// TestUploadWithEachRequestCut: whichever request of an upload is cut, and however, one video
// comes of it, and it becomes ready (H4, H5).
func TestUploadWithEachRequestCut(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stack.Options{Workers: 1})
	user := newUser(t, s)
	tab := open(t)
	film, err := os.ReadFile(clip(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	const sent = `document.querySelector('#files [data-phase=making], #files [data-phase=settled]')`
	var titles, ids []string
	for _, how := range []string{beforeServer, afterServer, unanswered} {
		for number := 0; ; number++ {
			title := fmt.Sprintf("%.2s%d", how, number)
			path := filepath.Join(dir, title+".mp4")
			if err := os.WriteFile(path, append(film, fmt.Sprintf("\x00\x00\x00\x0cfree%.4s", title+"    ")...), 0o600); err != nil {
				t.Fatal(err)
			}
			visit(t, tab, s.BaseURL()+"/upload")
			eval[any](t, tab, cutting(number, how))
			if err := chromedp.Do(tab, chromedp.SetUploadFiles(`#file`, []string{path})); err != nil {
				t.Fatal(err)
			}
			until(t, tab, "the file can be sent", `!document.getElementById('send').disabled`)
			if err := chromedp.Do(tab, chromedp.Click(`#send`)); err != nil {
				t.Fatal(err)
			}
			until(t, tab, title+" is sent", sent)
			cut := eval[string](t, tab, `window.cut`)
			t.Logf("%s: %s was cut %s", title, cut, how)
			titles, ids = append(titles, title), append(ids, eval[string](t, tab, `document.querySelector('#files li').dataset.id`))
			if cut == "" || number > 30 {
				break // the upload has fewer requests
			}
		}
	}
	if len(titles) < 3*5 {
		t.Errorf("of uploads were cut: %q", titles)
	}
	for i, id := range ids {
		if _, err := user.AwaitReady(t.Context(), id); err != nil {
			t.Errorf("%s: %v", titles[i], err)
		}
	}
	made := map[string]int{}
	azuritetest.Eventually(t, 20*time.Second, func() error {
		list, err := user.API().ListVideosWithResponse(t.Context(), &client.ListVideosParams{Limit: new(100)})
		if err != nil || list.JSON200 == nil || len(list.JSON200.Items) < len(titles) {
			return fmt.Errorf("not all videos are listed: %v, %w", list, err)
		}
		clear(made)
		for _, v := range list.JSON200.Items {
			made[v.Title]++
		}
		return nil
	})
	for _, title := range titles {
		if made[title] != 1 {
			t.Errorf("the file %s became %d videos", title, made[title])
		}
	}
}
