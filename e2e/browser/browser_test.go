package browser_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// TestMain runs the tests. Those that judge stalls, times or costs run first, one after the
// other; the rest wait most of their time and are parallel.
func TestMain(m *testing.M) {
	stacktest.Main(m)
}

// clipSeconds has seams at 2, 6 and 14 s, and its poster is not in the first chunk.
const clipSeconds = 16

// clip makes a small moving picture with sound.
func clip(t *testing.T, seconds int) string {
	t.Helper()
	return moving(t, "256x144", seconds)
}

// moving makes a moving picture of a size, with sound.
func moving(t *testing.T, size string, seconds int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "clip.mp4")
	cmd := exec.CommandContext(t.Context(), "ffmpeg", "-nostdin", "-v", "error",
		"-f", "lavfi", "-i", fmt.Sprintf("testsrc2=s=%s:r=25:d=%d", size, seconds),
		"-f", "lavfi", "-i", fmt.Sprintf("anoisesrc=c=pink:a=0.2:r=48000:seed=1:d=%d", seconds),
		"-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac", path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make a clip: %v\n%s", err, out)
	}
	return path
}

// open starts a browser with one tab.
func open(t *testing.T) context.Context {
	t.Helper()
	return openAs(t, "")
}

// openAs starts a browser of a person whose profile is in a folder; without one it is
// a new person.
func openAs(t *testing.T, profile string) context.Context {
	t.Helper()
	program := ""
	for _, name := range []string{os.Getenv("CUTROOM_TEST_BROWSER"), "chromium", "chromium-browser", "google-chrome", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Fatal("there is no Chromium: `make bootstrap` installs it, CUTROOM_TEST_BROWSER names it")
	}
	options := append([]chromedp.ExecAllocatorOption{}, chromedp.DefaultExecAllocatorOptions[:]...)
	options = append(options, chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("autoplay-policy", "no-user-gesture-required"), chromedp.Flag("mute-audio", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-background-networking", true),
		chromedp.WindowSize(1280, 900))
	if profile != "" {
		options = append(options, chromedp.UserDataDir(profile))
	}
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, close := chromedp.NewContext(allocator)
	t.Cleanup(close)
	// Actions wait for what they act on: without a deadline, for ever.
	ctx, cancel := context.WithTimeout(ctx, azuritetest.Patience(5*time.Minute))
	t.Cleanup(cancel)
	violated := &console{}
	err := chromedp.Listen(ctx, func(event any) {
		if e, ok := event.(*cdplog.EventEntryAdded); ok && strings.Contains(e.Entry.Text, "Content Security Policy") {
			violated.add(e.Entry.Text)
		}
	})
	if err != nil {
		t.Fatalf("listen for violations: %v", err)
	}
	// A tab of a browser without a window has no focus of its own, and keys would reach nothing.
	if _, err := chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}); err != nil {
		t.Fatalf("give the tab the focus: %v", err)
	}
	t.Cleanup(func() {
		for _, text := range violated.take() {
			t.Error(text)
		}
	})
	return ctx
}

// observe writes down what the player does. It runs before anything can play.
const observe = `(() => {
  const player = document.getElementById('player');
  const seen = window.seen = { waiting: [], starved: [], errors: [], seeks: [], first: null, stateAtFirst: '', ended: false };
  const info = console.info;
  console.info = (...args) => { if (args[0] === 'hls') seen.errors.push(args.slice(1).join(' ')); info(...args); };
  performance.setResourceTimingBufferSize(10000);
  player.muted = true;
  const there = setInterval(() => {
    if (player.hidden) return;
    clearInterval(there);
    player.play().catch(() => {});
  }, 20);
  player.addEventListener('playing', () => {
    if (seen.first !== null) return;
    seen.first = player.currentTime;
    seen.stateAtFirst = document.getElementById('video').dataset.state;
  });
  player.addEventListener('waiting', () => {
    if (seen.first === null || player.ended) return;
    // With nothing more in the playlist it waits for the encoder, not at a seam.
    (player.duration - player.currentTime > 0.5 ? seen.waiting : seen.starved).push(player.currentTime);
  });
  player.addEventListener('seeking', () => { if (seen.first !== null) seen.seeks.push(player.currentTime); });
  player.addEventListener('ended', () => { seen.ended = true; });
})()`

// seen is what observe wrote down.
type seen struct {
	Waiting      []float64 `json:"waiting"`
	Starved      []float64 `json:"starved"` // caught up with the encoder
	Errors       []string  `json:"errors"`
	Seeks        []float64 `json:"seeks"`
	First        *float64  `json:"first"`
	StateAtFirst string    `json:"stateAtFirst"`
	Ended        bool      `json:"ended"`
	Time         float64   `json:"time"`
	Duration     float64   `json:"duration"`
	Ranges       int       `json:"ranges"`
	Start        float64   `json:"start"`
	Refused      []string  `json:"refused"` // what the page asked for and did not get: an error on the console each
}

const report = `(() => { const p = document.getElementById('player'), b = p.buffered;
  return JSON.stringify({ ...window.seen, time: p.currentTime, duration: p.duration || 0, ranges: b.length, start: b.length ? b.start(0) : -1,
    refused: performance.getEntriesByType('resource').filter((e) => e.responseStatus >= 400).map((e) => e.responseStatus + ' ' + e.name) }); })()`

func watch(t *testing.T, ctx context.Context, url string) {
	t.Helper()
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		t.Fatalf("open %s: %v", url, err)
	}
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[any](observe)); err != nil {
		t.Fatalf("observe the player: %v", err)
	}
}

func look(t *testing.T, ctx context.Context) seen {
	t.Helper()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](report))
	if err != nil {
		t.Fatalf("look at the player: %v", err)
	}
	var s seen
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// playToEnd waits for the end and judges the whole.
func playToEnd(t *testing.T, ctx context.Context) seen {
	t.Helper()
	for began := time.Now(); ; {
		s := look(t, ctx)
		if s.Ended {
			if s.First == nil || *s.First > 0.1 {
				t.Errorf("playback started at %v, want 0", s.First)
			}
			for _, problem := range s.Errors {
				if len(s.Starved) > 0 && strings.Contains(problem, "bufferStalledError") {
					continue // what hls.js calls it
				}
				t.Errorf("hls.js reported %s", problem)
			}
			if len(s.Refused) > 0 {
				t.Errorf("the page asked for what is not there: %v", s.Refused)
			}
			if len(s.Starved) > 0 {
				t.Logf("playback caught up with the encoder at %v: this machine is slow", s.Starved)
			}
			if len(s.Waiting) > 0 {
				t.Errorf("playback stalled at %v", s.Waiting)
			}
			if len(s.Seeks) > 0 {
				t.Errorf("the player jumped to %v by itself", s.Seeks)
			}
			if s.Duration < clipSeconds-0.1 || s.Duration > clipSeconds+0.1 || s.Time < clipSeconds-0.1 {
				t.Errorf("ended at %.3f of %.3f s, want %d", s.Time, s.Duration, clipSeconds)
			}
			return s
		}
		if azuritetest.Late(began, 2*time.Minute+clipSeconds*time.Second) {
			shoot(t, ctx, "stuck")
			t.Fatalf("it does not end: %+v", s)
		}
		time.Sleep(250 * time.Millisecond) // the pace of looking, not of waiting: bounded by the deadline
	}
}

// shoot keeps a picture of the page for a person to look at, when
// CUTROOM_SCREENSHOTS names a folder.
func shoot(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	dir := os.Getenv("CUTROOM_SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600)
	}
	if err != nil {
		t.Logf("screenshot %s: %v", name, err)
	}
}

// TestWatchWhileItIsTranscodedAndAfterwards plays one video twice: from the
// moment that its first chunk exists, and once more when it is ready.
func TestWatchWhileItIsTranscodedAndAfterwards(t *testing.T) {
	s := stacktest.Start(t, stack.Options{Workers: 1, Env: []string{"WORKERROLE_POOLS=light=2,heavy=1"}})
	user, err := journey.New(s.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(user.Close)
	tab := open(t)

	v, err := user.Announce(t.Context(), client.NewVideo{Title: "Seen in a browser"})
	if err != nil {
		t.Fatal(err)
	}
	page := s.BaseURL() + "/watch/" + v.Id
	watch(t, tab, page)
	file, err := os.Open(moving(t, "854x480", clipSeconds)) // a small one may be ready before its first frame is shown
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if err := user.Put(t.Context(), v.Id, file, info.Size()); err != nil {
		t.Fatal(err)
	}

	grown := playToEnd(t, tab)
	if grown.StateAtFirst != "processing" {
		t.Errorf("the first frame was shown in state %q, want it while processing", grown.StateAtFirst)
	}
	shoot(t, tab, "grown")

	if _, err := user.AwaitReady(t.Context(), v.Id); err != nil {
		t.Fatal(err)
	}
	watch(t, tab, page)
	whole := playToEnd(t, tab)
	if whole.Start > 0.001 || whole.Ranges != 1 {
		t.Errorf("buffered: %d ranges from %.3f s, want one from 0", whole.Ranges, whole.Start)
	}
	shoot(t, tab, "whole")
}

// uploadedAndReady brings a file and waits for the video.
func uploadedAndReady(t *testing.T, user *journey.User, v client.NewVideo, path string) client.Video {
	t.Helper()
	ready, err := user.AwaitReady(t.Context(), upload(t, user, v, path).Id)
	if err != nil {
		t.Fatal(err)
	}
	return ready
}

// await asks the page for a number until it is not negative.
func await(t *testing.T, tab context.Context, script string) float64 {
	t.Helper()
	var n float64
	if !azuritetest.Poll(time.Minute, func() bool {
		var err error
		if n, err = chromedp.Run(tab, chromedp.Evaluate[float64](script)); err != nil {
			t.Fatalf("%s: %v", script, err)
		}
		return n >= 0
	}) {
		shoot(t, tab, "clip-stuck")
		t.Fatalf("still negative: %s", script)
	}
	return n
}

// readNumber is the number that the picture of a <video> shows.
const readNumber = `(() => {
  const player = document.querySelector('video'), canvas = document.createElement('canvas');
  canvas.width = 24; canvas.height = 2;
  const pen = canvas.getContext('2d');
  pen.drawImage(player, 0, 0, 24, 2);
  const pixels = pen.getImageData(0, 0, 24, 1).data;
  let number = 0;
  for (let bit = 0; bit < 12; bit++) if (pixels[8 * bit + 4] + pixels[8 * bit] > 256) number |= 1 << bit;
  return number;
})()`

// bearer shows a token with every request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// showing makes a tab show a token with every request.
func showing(t *testing.T, tab context.Context, token string) {
	t.Helper()
	headers := network.Headers{"Authorization": "Bearer " + token}
	if _, err := chromedp.Call(tab, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: headers}); err != nil {
		t.Fatal(err)
	}
}
