package browser_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/client"
)

// numbered makes a video whose every frame says its number, in 12 stripes that
// are white for a bit that is set, the lowest on the left.
func numbered(t *testing.T, rate string, seconds int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "numbered.mp4")
	cmd := exec.CommandContext(t.Context(), "ffmpeg", "-nostdin", "-v", "error",
		"-f", "lavfi", "-i", fmt.Sprintf("color=black:s=384x216:r=%s:d=%d,geq=lum='16+219*mod(floor(N/pow(2,floor(12*X/W))),2)':cb=128:cr=128", rate, seconds),
		"-f", "lavfi", "-i", fmt.Sprintf("sine=d=%d", seconds),
		"-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", "250", "-c:a", "aac", path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make a video: %v\n%s", err, out)
	}
	return path
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

// uploadedAndReady brings a file and waits for the video.
func uploadedAndReady(t *testing.T, user *journey.User, v client.NewVideo, path string) client.Video {
	t.Helper()
	made, err := user.Announce(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if err := user.Put(t.Context(), made.Id, file, info.Size()); err != nil {
		t.Fatal(err)
	}
	if made, err = user.AwaitReady(t.Context(), made.Id); err != nil {
		t.Fatal(err)
	}
	return made
}

// TestClipInABrowser asks for a clip, and plays it from start to end; then it
// opens the page at the same moment.
func TestClipInABrowser(t *testing.T) {
	s := stacktest.Start(t, stack.Options{Workers: 1})
	user, err := journey.New(s.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(user.Close)
	v := uploadedAndReady(t, user, client.NewVideo{Title: "Numbered"}, numbered(t, "30000/1001", 20))

	const start, length, first = 9.3, 5.0, 278 // frame 278 is shown from 9.2759 s to 9.3093 s
	asked := time.Now()
	clip, err := user.Clip(t.Context(), v.Id, start, length)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the clip of %v s was there after %v", length, time.Since(asked).Round(time.Millisecond))

	tab := open(t)
	playsClip(t, tab, s.BaseURL()+*clip.Links.Media, first, clip.DurationSeconds)

	if err := chromedp.Do(tab, chromedp.Navigate(fmt.Sprintf("%s/watch/%s?t=%v", s.BaseURL(), v.Id, start))); err != nil {
		t.Fatal(err)
	}
	at := await(t, tab, `(() => { const p = document.getElementById('player'); return p.readyState >= 2 && !p.seeking ? p.currentTime : -1; })()`)
	if at < start-0.001 || at > start+0.1 {
		t.Errorf("the page with ?t=%v starts at %v", start, at)
	}
	if n := await(t, tab, readNumber); n < first-1 || n > first+1 {
		t.Errorf("the page with ?t=%v shows frame %v, want %d", start, n, first)
	}
	shoot(t, tab, "moment")
}

// await asks the page for a number until it is not negative.
func await(t *testing.T, tab context.Context, script string) float64 {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		n, err := chromedp.Run(tab, chromedp.Evaluate[float64](script))
		if err != nil {
			t.Fatalf("%s: %v", script, err)
		}
		if n >= 0 {
			return n
		}
		if time.Now().After(deadline) {
			shoot(t, tab, "clip-stuck")
			t.Fatalf("still negative after a minute: %s", script)
		}
		time.Sleep(50 * time.Millisecond) // the pace of looking, bounded by the deadline
	}
}

// playsClip opens an MP4 in the browser's own player, looks at the first picture
// and waits for the end.
func playsClip(t *testing.T, tab context.Context, url string, first int, seconds float64) {
	t.Helper()
	if err := chromedp.Do(tab, chromedp.Navigate(url)); err != nil {
		t.Fatalf("open %s: %v", url, err)
	}
	const pause = `(() => { const p = document.querySelector('video'); p.autoplay = false; p.pause(); p.muted = true; p.currentTime = 0; return 1; })()`
	await(t, tab, pause)
	await(t, tab, `(() => { const p = document.querySelector('video'); return p.readyState >= 2 && !p.seeking && p.currentTime === 0 ? 1 : -1; })()`)
	if n := await(t, tab, readNumber); n != float64(first) {
		t.Errorf("the browser shows frame %v first, want %d", n, first)
	}
	shoot(t, tab, "clip")
	await(t, tab, `(() => { const p = document.querySelector('video'); window.stalls = 0;
	  p.addEventListener('waiting', () => { if (!p.ended) window.stalls++; });
	  p.play(); return 1; })()`)
	end := await(t, tab, `(() => { const p = document.querySelector('video'); return p.error ? -2 : p.ended ? p.currentTime : -1; })()`)
	if end < seconds-0.05 || end > seconds+0.05 {
		t.Errorf("the clip ends at %v s, want %v", end, seconds)
	}
	if n := await(t, tab, `window.stalls`); n > 0 {
		t.Errorf("the clip stalled %v times", n)
	}
}
