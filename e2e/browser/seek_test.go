package browser_test

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// numberedFilm is like numbered, with ten pictures a second: 12 bits last for minutes.
func numberedFilm(t *testing.T, seconds int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "film.mp4")
	cmd := exec.CommandContext(t.Context(), "ffmpeg", "-nostdin", "-v", "error",
		"-f", "lavfi", "-i", fmt.Sprintf("color=black:s=24x12:r=10:d=%d,geq=lum='16+219*mod(floor(N/pow(2,floor(12*X/W))),2)':cb=128:cr=128,scale=640:360:flags=neighbor", seconds),
		"-f", "lavfi", "-i", fmt.Sprintf("anoisesrc=c=pink:a=0.2:r=48000:seed=1:d=%d", seconds),
		"-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", "50", "-c:a", "aac", path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make a film: %v\n%s", err, out)
	}
	return path
}

// hour makes an hour of 720p out of one minute, again and again: the pictures say their
// number within their minute, above something that moves.
func hour(t *testing.T) string {
	t.Helper()
	minute, path := filepath.Join(t.TempDir(), "minute.mp4"), filepath.Join(t.TempDir(), "hour.mp4")
	for _, args := range [][]string{
		{"-f", "lavfi", "-i", "testsrc2=s=1280x720:r=25:d=60",
			"-f", "lavfi", "-i", "color=black:s=24x12:r=25:d=60,geq=lum='16+219*mod(floor(N/pow(2,floor(12*X/W))),2)':cb=128:cr=128,scale=1280x360:flags=neighbor",
			// At 44,100 samples a second a minute is nearly a whole number of AAC packets, so that
			// sixty in a row keep their sound with their pictures.
			"-f", "lavfi", "-i", "anoisesrc=c=pink:a=0.2:r=44100:seed=1:d=60", "-filter_complex", "[0][1]overlay",
			"-c:v", "libx264", "-preset", "ultrafast", "-b:v", "700k", "-maxrate", "700k", "-bufsize", "1400k", "-pix_fmt", "yuv420p", "-g", "50", "-c:a", "aac", minute},
		{"-stream_loop", "59", "-i", minute, "-c", "copy", path},
	} {
		cmd := exec.CommandContext(t.Context(), "ffmpeg", append([]string{"-nostdin", "-v", "error"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("make an hour: %v\n%s", err, out)
		}
	}
	return path
}

// TestSeekInAnHour: a viewer goes to the fiftieth minute of a film of an hour in 720p,
// of which the beginning alone is made, on a machine that is busy with the rest of it. A
// preview plays within 8 seconds, with the right picture. Who looks for the first time
// when the machine does something else has two more minutes to look at.
func TestSeekInAnHour(t *testing.T) {
	most := azuritetest.Bound(8 * time.Second)
	s := stacktest.Start(t, stack.Options{Workers: 1})
	user := newUser(t, s)
	v := upload(t, user, client.NewVideo{Title: "An hour"}, hour(t))
	tab := open(t)
	visit(t, tab, s.BaseURL()+"/watch/"+v.Id)
	playable(t, tab, "watch")
	eval[any](t, tab, `(() => { const p = document.getElementById('player'); p.muted = true; return p.play(); })() ?? null`)
	until(t, tab, "it plays", `document.getElementById('player').currentTime > 0.2`)

	took := most + 1
	for _, minute := range []int{50, 35, 20} {
		start := time.Now()
		eval[any](t, tab, fmt.Sprintf(`(() => { const bar = document.getElementById('scrub'), box = bar.getBoundingClientRect();
			bar.dispatchEvent(new MouseEvent('click', { clientX: box.left + box.width * (%d * 60 + 7) / 3600, clientY: box.top + 5, bubbles: true })); })() ?? null`, minute))
		until(t, tab, fmt.Sprintf("minute %d plays", minute), fmt.Sprintf(`(() => { const p = document.getElementById('player');
			return !p.paused && !p.seeking && p.readyState >= 3 && p.currentTime > %[1]d && p.currentTime < %[1]d + 30; })()`, minute*60))
		took = time.Since(start)
		shoot(t, tab, fmt.Sprint("seek-minute-", minute))
		got := eval[[]float64](t, tab, `[document.getElementById('player').currentTime % 60 * 25, `+readNumber+`]`)
		if d := got[0] - got[1]; d < -3 || d > 5 {
			t.Errorf("picture %v of its minute is shown at picture %.1f", got[1], got[0])
		}
		t.Logf("minute %d plays %.1f s after the click", minute, took.Seconds())
		if took <= most {
			break
		}
	}
	if took > most {
		t.Errorf("none plays within %v", most)
	}
	if made := made(t, user, v.Id); len(made) > 20 {
		t.Errorf("%d chunks are made: this shows nothing", len(made))
	}
}

// made are the chunks of a video that are made.
func made(t *testing.T, user *journey.User, id string) []client.Step {
	t.Helper()
	return slices.DeleteFunc(stepsOf(t, user, id), func(s client.Step) bool { return s.Step != "encode" || s.State != "done" })
}

// TestSeekIntoWhatIsNotMade (Q5): a viewer of a film goes to a part that no worker has
// made. All queues but the urgent ones are paused, so only what is asked for again can
// be made. It plays, with the right picture, while nearly all of the film is missing;
// and so does the beginning again, and the rest when it is made.
func TestSeekIntoWhatIsNotMade(t *testing.T) {
	t.Parallel()
	const seconds, target = 110, 90
	s := stacktest.Start(t, stack.Options{})
	user := newUser(t, s)
	for _, queue := range []string{"encode-high", "encode-normal", "audio"} {
		if got, err := user.API().PauseQueueWithResponse(t.Context(), queue); err != nil || got.StatusCode() != http.StatusNoContent {
			t.Fatalf("pause %s: %v %v", queue, got, err)
		}
	}
	if _, err := s.AddWorker(t.Context()); err != nil {
		t.Fatal(err)
	}
	v := upload(t, user, client.NewVideo{Title: "A film"}, numberedFilm(t, seconds))
	tab := open(t)
	if err := chromedp.Do(tab, chromedp.Navigate(s.BaseURL()+"/watch/"+v.Id)); err != nil {
		t.Fatal(err)
	}
	eval[any](t, tab, `performance.setResourceTimingBufferSize(100000), null`) // the usual 250 are full after minutes on a slow machine
	playable(t, tab, "watch")
	eval[any](t, tab, `(() => { const p = document.getElementById('player'); p.muted = true; return p.play(); })() ?? null`)
	until(t, tab, "it plays", `document.getElementById('player').currentTime > 0.2`)

	click := func(second int) {
		t.Helper()
		eval[any](t, tab, fmt.Sprintf(`(() => { const bar = document.getElementById('scrub'), box = bar.getBoundingClientRect();
			bar.dispatchEvent(new MouseEvent('click', { clientX: box.left + box.width * %d / %d, clientY: box.top + 5, bubbles: true })); })() ?? null`, second, seconds))
	}
	shows := func(second int) {
		t.Helper()
		until(t, tab, fmt.Sprintf("second %d plays", second), fmt.Sprintf(`(() => { const p = document.getElementById('player');
			return !p.paused && !p.seeking && p.readyState >= 3 && p.currentTime > %d + 0.3 && p.currentTime < %d + 30; })()`, second, second))
		got := eval[[]float64](t, tab, `[document.getElementById('player').currentTime * 10, `+readNumber+`]`)
		// The picture may be the one before or after, for it goes on.
		if d := got[0] - got[1]; d < -2 || d > 3 {
			t.Errorf("at %.1f s the picture is number %v", got[0]/10, got[1])
		}
	}

	start := time.Now()
	click(target)
	until(t, tab, "the page says what it waits for", `document.getElementById('seeking').textContent.includes('1:30')`)
	shoot(t, tab, "seek-wanted")
	shows(target)
	took := time.Since(start)
	t.Logf("second %d plays %.1f s after the click", target, took.Seconds())
	if most := azuritetest.Patience(8 * time.Second); took > most {
		t.Errorf("second %d plays %v after the click, want at most %v", target, took, most)
	}
	shoot(t, tab, "seek-plays")
	if made := made(t, user, v.Id); len(made) > 3 {
		t.Errorf("%d chunks are made, want no more than what was asked for", len(made))
	}

	resume := func(queues ...string) {
		t.Helper()
		for _, queue := range queues {
			if got, err := user.API().ResumeQueueWithResponse(t.Context(), queue); err != nil || got.StatusCode() != http.StatusNoContent {
				t.Fatalf("resume %s: %v %v", queue, got, err)
			}
		}
	}
	resume("encode-high") // where a chunk is made of which there is a preview
	until(t, tab, "it goes on in all qualities", `performance.getEntriesByType('resource').some((e) => e.name.includes('master.m3u8?from=') && !e.name.includes('preview'))`)
	click(target) // it went on meanwhile
	shows(target)

	click(0) // the beginning is in another playlist
	shows(0)

	resume("encode-normal", "audio")
	ready, err := user.AwaitReady(t.Context(), v.Id)
	if err != nil {
		t.Fatal(err)
	}
	click(target / 2)
	shows(target / 2)
	t.Run("qualities", func(t *testing.T) {
		heights := eval[[]int](t, tab, `[...document.getElementById('quality').options].filter((o) => o.value >= 0).map((o) => parseInt(o.text))`)
		if len(heights) < 2 {
			t.Fatalf("qualities %v, want several", heights)
		}
		eval[any](t, tab, `document.getElementById('player').loop = true, null`) // a slow machine may meet its end
		for _, height := range []int{slices.Min(heights), slices.Max(heights)} {
			click(target / 2)
			reach(t, tab, "#quality")
			typeKeys(t, tab, strconv.Itoa(height)) // a list goes to what begins like that
			until(t, tab, fmt.Sprintf("the picture has %d lines", height), fmt.Sprintf(`document.getElementById('player').videoHeight === %d`, height))
			click(target / 2) // it went on meanwhile
			shows(target / 2)
		}
	})
	t.Run("thumbnail", func(t *testing.T) {
		const second = 55
		until(t, tab, "a picture of that second", fmt.Sprintf(`(() => { const bar = document.getElementById('scrub'), box = bar.getBoundingClientRect();
			bar.dispatchEvent(new PointerEvent('pointermove', { clientX: box.left + box.width * %d / %d, clientY: box.top + 5, bubbles: true }));
			return document.querySelector('#scrub .tile').style.backgroundImage.includes('storyboard'); })()`, second, seconds))
		number := await(t, tab, tileNumber)
		if d := number/10 - second; d < -3 || d > 3 { // 100 tiles at most for the whole film
			t.Errorf("at %d s the thumbnail is of second %.1f", second, number/10)
		}
	})
	for _, step := range stepsOf(t, user, ready.Id) {
		if step.Attempts > 1 {
			t.Errorf("%s %d was worked on %d times", step.Step, step.Index, step.Attempts)
		}
	}
}

func stepsOf(t *testing.T, user *journey.User, id string) []client.Step {
	t.Helper()
	got, err := user.API().ListStepsWithResponse(t.Context(), id)
	if err != nil || got.JSON200 == nil {
		t.Fatalf("steps of %s: %v", id, err)
	}
	return got.JSON200.Items
}

// tileNumber is the number that the picture above the bar shows.
const tileNumber = `(() => {
  const tile = document.querySelector('#scrub .tile'), style = getComputedStyle(tile);
  const url = style.backgroundImage.slice(5, -2);
  if (!window.sheet || window.sheet.dataset.url !== url) {
    window.sheet = new Image();
    window.sheet.dataset.url = url;
    window.sheet.src = url;
  }
  if (!window.sheet.complete || !window.sheet.naturalWidth) return -1;
  const [x, y] = style.backgroundPosition.split(' ').map((p) => -parseFloat(p));
  const scale = style.backgroundSize === 'auto' ? 1 : window.sheet.naturalWidth / parseFloat(style.backgroundSize);
  const canvas = document.createElement('canvas');
  canvas.width = 24; canvas.height = 2;
  const pen = canvas.getContext('2d');
  pen.drawImage(window.sheet, x * scale, y * scale, tile.clientWidth * scale, tile.clientHeight * scale, 0, 0, 24, 2);
  const pixels = pen.getImageData(0, 0, 24, 1).data;
  let number = 0;
  for (let bit = 0; bit < 12; bit++) if (pixels[8 * bit + 4] + pixels[8 * bit] > 256) number |= 1 << bit;
  return number;
})()`
