package browser_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
)

// flashing makes a film that is white for a tenth of a second in the middle of each
// second. A pulse sounds so long after each flash began, above a tone that never ends. It is
// not so loud that the page would turn it down.
func flashing(t *testing.T, seconds int, after time.Duration) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "flashing.mp4")
	cmd := exec.CommandContext(t.Context(), "ffmpeg", "-nostdin", "-v", "error",
		"-f", "lavfi", "-i", fmt.Sprintf(`color=black:s=426x240:r=50:d=%d,drawbox=color=white:t=fill:enable='between(mod(t,1),0.499,0.599)'`, seconds),
		"-f", "lavfi", "-i", fmt.Sprintf(`aevalsrc='0.04*sin(2*PI*440*t)+0.2*sin(2*PI*3000*t)*between(mod(t-%f,1),0.5,0.58)':s=48000:d=%d`, after.Seconds(), seconds),
		"-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac", "-b:a", "256k", path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make a film: %v\n%s", err, out)
	}
	return path
}

// attend plays the film of a page once and writes down every sample that the player
// gives to the machine, every picture that it shows, and when.
const attend = `(async (seconds) => {
  const player = document.getElementById('player'), rate = 48000;
  const sound = new AudioContext({ sampleRate: rate });
  const keeper = 'registerProcessor("keeper", class extends AudioWorkletProcessor {' +
    'process([[samples]]) { if (samples) this.port.postMessage({ at: currentFrame, samples: samples.slice() }); return true; } })';
  await sound.audioWorklet.addModule(URL.createObjectURL(new Blob([keeper], { type: 'text/javascript' })));
  const node = new AudioWorkletNode(sound, 'keeper'), silent = new GainNode(sound, { gain: 0 });
  sound.createMediaElementSource(player).connect(node).connect(silent).connect(sound.destination);
  await sound.resume();
  const seen = window.attended = { rate, samples: new Float32Array((seconds + 20) * rate), from: -1, clocks: [], pictures: [], ended: false };
  node.port.onmessage = ({ data }) => {
    if (seen.from < 0) seen.from = data.at;
    if (data.at - seen.from + data.samples.length < seen.samples.length) seen.samples.set(data.samples, data.at - seen.from);
  };
  setInterval(() => {
    const { contextTime, performanceTime } = sound.getOutputTimestamp();
    if (performanceTime > 0) seen.clocks.push(performanceTime - contextTime * 1000);
  }, 100);
  const pen = Object.assign(document.createElement('canvas'), { width: 2, height: 2 }).getContext('2d', { willReadFrequently: true });
  const look = (now, { expectedDisplayTime }) => {
    pen.drawImage(player, 0, 0, 2, 2);
    seen.pictures.push([expectedDisplayTime, pen.getImageData(0, 0, 1, 1).data[0]]);
    player.requestVideoFrameCallback(look);
  };
  player.requestVideoFrameCallback(look);
  player.addEventListener('ended', () => { seen.ended = true; });
  player.muted = false;
  player.currentTime = 0;
  await player.play();
})(%d)`

// measure tells when pulses and flashes began, in milliseconds of one clock, and how far the
// sound around some seconds is from the tone that fits it best, in decibels.
const measure = `((seams) => {
  const { rate, samples, from, clocks, pictures } = window.attended;
  const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];
  // A tone's sine and cosine in a window, by least squares: nearly orthogonal there.
  const tone = (hertz, first, count) => {
    let s = 0, c = 0;
    for (let i = 0; i < count; i++) {
      const w = 2 * Math.PI * hertz * (first + i) / rate;
      s += samples[first + i] * Math.sin(w);
      c += samples[first + i] * Math.cos(w);
    }
    return [2 * s / count, 2 * c / count];
  };
  const window_ = rate / 1000, level = [];
  for (let at = 0; at + window_ < samples.length; at += window_) level.push(Math.hypot(...tone(3000, at, window_)));
  const loud = Math.max(...level.slice(200)) / 2, begun = []; // in windows
  for (let i = 1; i < level.length; i++) if (level[i] > loud && level[i - 1] <= loud && (!begun.length || i - begun.at(-1) > 300)) begun.push(i);
  const clock = median(clocks);
  const pulses = begun.map((i) => (from + i * window_) / rate * 1000 + clock);
  const flashes = pictures.filter(([at, light], i) => i > 0 && light > 128 && pictures[i - 1][1] <= 128).map(([at]) => at);
  // Where a second of the film is among the samples: by all pulses but the first, which a player may still be waking up for.
  const start = median(begun.map((i, k) => i * window_ - (k + 0.5) * rate));
  const apart = seams.map((second) => {
    const around = 0.2 * rate, first = Math.round(start + second * rate - around), [s, c] = tone(440, first, 2 * around);
    let worst = 0;
    for (let at = first; at < first + 2 * around; at += 240) { // 5 ms
      let sum = 0;
      for (let i = at; i < at + 240; i++) {
        const w = 2 * Math.PI * 440 * i / rate;
        sum += (samples[i] - s * Math.sin(w) - c * Math.cos(w)) ** 2;
      }
      worst = Math.max(worst, Math.sqrt(2 * sum / 240));
    }
    return 20 * Math.log10(worst / Math.hypot(s, c));
  });
  return JSON.parse(JSON.stringify({ pulses, flashes, apart }));
})(%s)`

// attended is what somebody heard and saw.
type attended struct {
	Pulses  []float64 `json:"pulses"`
	Flashes []float64 `json:"flashes"`
	Apart   []float64 `json:"apart"`
}

// late is how long after its flash a pulse sounds: the median of all, in milliseconds.
func (a attended) late() float64 {
	var all []float64
	for i := range min(len(a.Pulses), len(a.Flashes)) {
		all = append(all, a.Pulses[i]-a.Flashes[i])
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// TestSoundAndPictureTogether: what a viewer hears and sees, as the player gives it to the
// machine. Pulses and flashes are together within 40 ms, none is missing, and the tone
// below them goes on over the seams of portions, which are made on their own, as if there
// were none. A machine that stands still for a moment disturbs all of that, so a bad
// playing is repeated; a fault of the film is there every time.
func TestSoundAndPictureTogether(t *testing.T) {
	s := stacktest.Start(t, stack.Options{Workers: 1})
	user := newUser(t, s)
	tab := open(t)
	bypass := page.SetBypassCSPParams{Enabled: true} // the page's policy allows no script of ours that keeps samples
	if _, err := chromedp.Call(tab, page.SetBypassCSP, bypass); err != nil {
		t.Fatal(err)
	}
	play := func(id string, seconds int, seams string) attended {
		t.Helper()
		visit(t, tab, s.BaseURL()+"/watch/"+id)
		playable(t, tab, "watch")
		if _, err := chromedp.Run(tab, chromedp.Evaluate[any](fmt.Sprintf(attend, seconds)+`.then(() => null)`, chromedp.EvalAwaitPromise)); err != nil {
			t.Fatalf("attend: %v", err)
		}
		until(t, tab, "the film has ended", `window.attended.ended`)
		return eval[attended](t, tab, fmt.Sprintf(measure, seams))
	}

	const seconds = 34
	v := uploadedAndReady(t, user, client.NewVideo{Title: "Flashes"}, flashing(t, seconds, 0))
	together := -1.0 // milliseconds
	var problems []string
	for range 3 {
		problems = nil
		got := play(v.Id, seconds, `[5.995, 29.995]`)
		if len(got.Pulses) != seconds || len(got.Flashes) != seconds {
			problems = append(problems, fmt.Sprintf("%d pulses and %d flashes, want %d", len(got.Pulses), len(got.Flashes), seconds))
		} else if together = got.late(); together < -40 || together > 40 {
			problems = append(problems, fmt.Sprintf("the sound is %.0f ms late", together))
		}
		if worst := slices.Max(got.Apart); worst > -30 {
			problems = append(problems, fmt.Sprintf("at a seam of sound the tone is %.1f dB apart from its fit", worst))
		}
		t.Logf("the sound is %.0f ms late; at its seams the tone is %.1f dB apart from its fit", together, got.Apart)
		if len(problems) == 0 {
			break
		}
		t.Logf("disturbed? %q", problems)
	}
	for _, problem := range problems {
		t.Error(problem)
	}

	t.Run("measure", func(t *testing.T) { // it sees sound that is late
		const after, short = 120 * time.Millisecond, 6
		v := uploadedAndReady(t, user, client.NewVideo{Title: "Late sound"}, flashing(t, short, after))
		got := play(v.Id, short, `[]`)
		if len(got.Pulses) != short || len(got.Flashes) != short {
			t.Fatalf("%d pulses and %d flashes, want %d", len(got.Pulses), len(got.Flashes), short)
		}
		t.Logf("sound that is 120 ms late is %.0f ms later than the other", got.late()-together)
		if more := got.late() - together; more < 80 || more > 160 {
			t.Errorf("sound that is 120 ms late is %.0f ms later than the other", more)
		}
	})
}
