package browser_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
)

// playAddress plays an address with hls.js in the player of a page, and writes down
// what happens.
const playAddress = `(address) => {
  const player = document.getElementById('player'), seen = window.tried = { status: 0, error: '' };
  player.hidden = false;
  player.muted = true;
  const hls = new Hls();
  hls.on(Hls.Events.ERROR, (_, data) => { if (data.fatal) seen.error = data.details; seen.status = data.response?.code ?? 0; });
  hls.on(Hls.Events.MANIFEST_PARSED, () => player.play());
  hls.loadSource(address);
  hls.attachMedia(player);
  return null;
}`

// TestMyVideos: the list of one's own videos, empty, full and broken. A private one of
// them plays for its owner. For a stranger there is none, on its page, in its frame and at
// its address; with the address that its owner was given, hls.js plays it for everyone.
func TestMyVideos(t *testing.T) {
	t.Parallel()
	const token = "token-of-this-test-only"
	s := stacktest.Start(t, stack.Options{Workers: 1, Env: []string{"WEBROLE_TOKEN=" + token, "WEBROLE_ANONYMOUS=on", "WEBROLE_PLAYBACK_KEYS=a-key-of-playback-of-this-test-only"}})
	user, err := journey.NewThrough(s.BaseURL(), bearer(token))
	if err != nil {
		t.Fatal(err)
	}
	mine, stranger := open(t), open(t)
	showing(t, mine, token)

	visit(t, mine, s.BaseURL()+"/mine")
	until(t, mine, "there are none", `!document.getElementById('empty').hidden && !document.querySelector('.ghost')`)
	inspect(t, mine, "mine-empty")

	private, unlisted := client.Private, client.Unlisted
	film := clip(t, 6)
	v := upload(t, user, client.NewVideo{Title: "Only for me", Visibility: &private}, film)
	half, err := os.ReadFile(film)
	if err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "half.mp4") // its index was at the end
	if err := os.WriteFile(broken, half[:len(half)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	upload(t, user, client.NewVideo{Title: "Half a film", Visibility: &unlisted}, broken)
	begun, err := user.Announce(t.Context(), client.NewVideo{Title: "Begun"})
	if err != nil {
		t.Fatal(err)
	}
	until(t, mine, "one is ready, one failed and one waits for its file", `['ready', 'failed', 'awaiting_upload'].every((state) => document.querySelector('#videos [data-state=' + state + ']'))`)
	until(t, mine, "the page has a sum", `document.getElementById('sum').textContent.startsWith('3 videos, ')`)
	if got := eval[string](t, mine, `document.querySelector('#videos [data-state=ready] .badge').textContent`); got != "Private" {
		t.Errorf("a private video is marked %q", got)
	}
	if got := eval[string](t, mine, `document.querySelector('#videos [data-state=awaiting_upload] .button').getAttribute('href')`); got != "/upload?video="+begun.Id {
		t.Errorf("an upload goes on at %q", got)
	}
	inspect(t, mine, "mine-full")

	block := network.SetBlockedURLsParams{URLPatterns: []*network.BlockPattern{{URLPattern: s.BaseURL() + "/api/v1/videos*", Block: true}}}
	if _, err := chromedp.Call(mine, network.SetBlockedURLs, block); err != nil {
		t.Fatal(err)
	}
	visit(t, mine, s.BaseURL()+"/mine")
	until(t, mine, "it says that there is no answer", `!document.getElementById('broken').hidden && document.getElementById('status').textContent`)
	inspect(t, mine, "mine-broken")
	if _, err := chromedp.Call(mine, network.SetBlockedURLs, network.SetBlockedURLsParams{}); err != nil {
		t.Fatal(err)
	}
	until(t, mine, "the list comes back", `document.getElementById('broken').hidden && document.querySelectorAll('#videos li').length === 3`)

	visit(t, stranger, s.BaseURL()+"/mine")
	until(t, stranger, "no user is signed in", `document.querySelector('main').textContent.includes('You are not signed in')`)
	inspect(t, stranger, "mine-signed-out")

	t.Run("private", func(t *testing.T) {
		visit(t, mine, s.BaseURL()+"/watch/"+v.Id)
		playable(t, mine, "the owner's page")
		eval[any](t, mine, `(() => { const p = document.getElementById('player'); p.muted = true; p.play(); return null; })()`)
		until(t, mine, "it plays for its owner", `document.getElementById('player').currentTime > 1`)
		for page, words := range map[string]string{"/watch/": "status", "/embed/": "waiting"} {
			visit(t, stranger, s.BaseURL()+page+v.Id)
			until(t, stranger, page+" shows a stranger nothing", `document.getElementById('`+words+`').textContent.includes('it is private')`)
			if loaded := eval[bool](t, stranger, `document.getElementById('player').duration > 0`); loaded {
				t.Errorf("%s: a stranger's player has a film", page)
			}
		}
		inspect(t, stranger, "mine-embed")

		got, err := user.Video(t.Context(), v.Id)
		if err != nil || got.Links.Master == nil || !strings.Contains(*got.Links.Master, "/~") {
			t.Fatalf("the owner is given %+v, %v", got.Links, err)
		}
		bare := "/v/" + v.Id + "/master.m3u8"
		eval[any](t, stranger, `(`+playAddress+`)("`+bare+`")`)
		until(t, stranger, "hls.js is refused", `window.tried.status === 404`)
		eval[any](t, stranger, `(`+playAddress+`)("`+*got.Links.Master+`")`)
		until(t, stranger, "hls.js plays the address with a token", `document.getElementById('player').currentTime > 1`)
		if said := eval[string](t, stranger, `window.tried.error`); said != "" {
			t.Errorf("hls.js says %s", said)
		}
		asked := eval[[]string](t, stranger, `performance.getEntriesByType('resource').map((e) => new URL(e.name).pathname).filter((p) => p.startsWith('/v/') && !p.includes('/~'))`)
		if len(asked) != 1 || asked[0] != bare {
			t.Errorf("asked for without a token: %v, want only %s", asked, bare)
		}
	})
}
