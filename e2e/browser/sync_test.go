package browser_test

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
)

// pulsing makes a film of 50 pictures a second that say their number as those of numbered
// do. In the middle of each second a pulse sounds, so much later than it should, above a
// tone that never ends. It is not so loud that the page would turn it down.
func pulsing(t *testing.T, seconds int, late time.Duration) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pulsing.mp4")
	cmd := exec.CommandContext(t.Context(), "ffmpeg", "-nostdin", "-v", "error",
		"-f", "lavfi", "-i", fmt.Sprintf(`color=black:s=24x12:r=50:d=%d,geq=lum='16+219*mod(floor(N/pow(2,floor(12*X/W))),2)':cb=128:cr=128,scale=426x240:flags=neighbor`, seconds),
		"-f", "lavfi", "-i", fmt.Sprintf(`aevalsrc='0.04*sin(2*PI*440*t)+0.2*sin(2*PI*3000*t)*between(mod(t-%f,1),0.5,0.58)':s=48000:d=%d`, late.Seconds(), seconds),
		"-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac", "-b:a", "256k", path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make a film: %v\n%s", err, out)
	}
	return path
}

// attend writes down every sample that the player gives to the machine, the pictures that
// it shows, and when. The samples stay in the thread of sound until the end: a page that
// is told of each is too busy to show pictures. Large buffers bear a busy machine.
const attend = `(async () => {
  const player = document.getElementById('player'), rate = 48000;
  const sound = new AudioContext({ sampleRate: rate, latencyHint: 'playback' });
  const keeper = 'registerProcessor("keeper", class extends AudioWorkletProcessor {' +
    'constructor() { super(); this.samples = new Float32Array(120 * 48000); this.from = 0;' +
    '  this.port.onmessage = ({ data }) => {' +
    '    if (data === "begin") { this.samples.fill(0); this.from = currentFrame; }' +
    '    else this.port.postMessage({ from: this.from, samples: this.samples.slice(0, currentFrame - this.from) }); }; }' +
    'process([[samples]]) { const at = currentFrame - this.from;' +
    '  if (samples && at + samples.length <= this.samples.length) this.samples.set(samples, at); return true; } })';
  await sound.audioWorklet.addModule(URL.createObjectURL(new Blob([keeper], { type: 'text/javascript' })));
  const node = new AudioWorkletNode(sound, 'keeper'), silent = new GainNode(sound, { gain: 0 });
  sound.createMediaElementSource(player).connect(node).connect(silent).connect(sound.destination);
  await sound.resume();
  const seen = window.attended = { rate, clocks: [], pictures: [], waiting: [], over: false, from: 0, samples: null };
  setInterval(() => {
    // The player does not know that its sound goes a longer way here, so that is taken off.
    const { contextTime, performanceTime } = sound.getOutputTimestamp(), way = sound.baseLatency + sound.outputLatency;
    if (performanceTime > 0) seen.clocks.push([contextTime * 1000, performanceTime - way * 1000]);
  }, 50);
  const pen = Object.assign(document.createElement('canvas'), { width: 24, height: 2 }).getContext('2d', { willReadFrequently: true });
  const look = (now, { expectedDisplayTime }) => {
    pen.drawImage(player, 0, 0, 24, 2);
    const pixels = pen.getImageData(0, 0, 24, 1).data;
    let number = 0;
    for (let bit = 0; bit < 12; bit++) if (pixels[8 * bit + 4] + pixels[8 * bit] > 256) number |= 1 << bit;
    seen.pictures.push([expectedDisplayTime, number * 20]);
    player.requestVideoFrameCallback(look);
  };
  player.requestVideoFrameCallback(look);
  player.addEventListener('waiting', () => { if (!player.seeking && !player.ended) seen.waiting.push(player.currentTime); });
  player.muted = false;
  window.listen = async (from, to) => {
    player.pause();
    seen.over = false;
    if (Math.abs(player.currentTime - from) > 0.001) {
      const there = new Promise((resolve) => player.addEventListener('seeked', resolve, { once: true }));
      player.currentTime = from;
      await there;
    }
    seen.clocks = []; seen.pictures = []; seen.waiting = [];
    node.port.postMessage('begin');
    await player.play();
    const end = setInterval(() => {
      if (player.currentTime < to && !player.ended) return;
      clearInterval(end);
      player.pause();
      node.port.onmessage = ({ data }) => { Object.assign(seen, data); seen.over = true; };
      node.port.postMessage('end');
    }, 50);
  };
})()`

// measure makes of that which pulses were heard, in samples since the beginning, how much later
// than the pictures of that time, in milliseconds; and around some seconds of the film how far
// the sound is from the tone that fits it best, in decibels.
const measure = `((seams) => {
  const { rate, samples, from, clocks, pictures, waiting } = window.attended;
  const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];
  // A tone's sine and cosine in a window, by least squares: nearly orthogonal there.
  const tone = (hertz, first, count) => {
    let s = 0, c = 0;
    for (let i = first; i < first + count; i++) {
      const w = 2 * Math.PI * hertz * i / rate;
      s += samples[i] * Math.sin(w);
      c += samples[i] * Math.cos(w);
    }
    return [2 * s / count, 2 * c / count];
  };
  const step = rate / 1000, level = [];
  for (let at = 0; at + step <= samples.length; at += step) level.push(Math.hypot(...tone(3000, at, step)));
  const loudest = Math.max(0, ...level), loud = median(level.filter((l) => l > loudest / 2)) / 2, pulses = [];
  let sounds = false, quiet = 0; // milliseconds
  level.forEach((l, i) => {
    if (l > loud && !sounds) {
      sounds = true;
      const at = (from + i * step) / rate * 1000;
      // A machine that is late moves the clock of the sound, so only what is near counts.
      const near = clocks.filter(([c]) => Math.abs(c - at) < 700).map(([c, p]) => p - c);
      const heard = at + median(near);
      const shown = pictures.filter(([p]) => Math.abs(p - heard) < 700).map(([p, film]) => film + heard - p);
      const film = shown.length < 5 ? NaN : median(shown), second = Math.round((film - 500) / 1000);
      pulses.push({ at: i * step, second: Number.isNaN(film) ? -1 : second, late: Number.isNaN(film) ? 0 : film - 500 - second * 1000 });
    }
    quiet = l > loud / 2 ? 0 : quiet + 1;
    if (quiet >= 20) sounds = false;
  });
  const apart = seams.map((second) => {
    const before = pulses.find((p) => p.second === second - 1);
    const around = 0.2 * rate, first = before ? before.at + rate / 2 - around : -1;
    if (first < 0 || first + 2 * around > samples.length) return 99;
    const [s, c] = tone(440, first, 2 * around);
    let worst = 0;
    for (let at = first; at < first + 2 * around; at += 120) { // 2.5 ms
      let sum = 0;
      for (let i = at; i < at + 120; i++) {
        const w = 2 * Math.PI * 440 * i / rate;
        sum += (samples[i] - s * Math.sin(w) - c * Math.cos(w)) ** 2;
      }
      worst = Math.max(worst, Math.sqrt(2 * sum / 120));
    }
    return Math.min(99, 20 * Math.log10(worst / (Math.hypot(s, c) + 1e-9)));
  });
  return { pulses, apart, pictures: pictures.length, loudest, waiting };
})(%s)`

// attended is what a viewer heard and saw.
type attended struct {
	Pulses []struct {
		At     float64 `json:"at"`     // samples
		Second int     `json:"second"` // of the film, by its pictures; -1: there were none
		Late   float64 `json:"late"`   // milliseconds
	} `json:"pulses"`
	Apart    []float64 `json:"apart"` // at each of seams; 99: not heard
	Pictures int       `json:"pictures"`
	Loudest  float64   `json:"loudest"`
	Waiting  []float64 `json:"waiting"` // where the player stood still
}

// seams are those of pictures, in seconds; those of sound are at the second and the last.
var seams = []int{2, 6, 14, 30}

// late are the milliseconds that pulses came too late from one second up to another, in order.
func (a attended) late(from, to int) []float64 {
	var all []float64
	for _, p := range a.Pulses {
		if p.Second >= from && p.Second < to {
			all = append(all, p.Late)
		}
	}
	slices.Sort(all)
	return all
}

// place is something to attend to, and what was wrong with it; nothing when all is well.
type place struct {
	from, to float64 // seconds to play
	wrong    func(attended) string
}

// together is that the sound of a stretch comes with its pictures.
func together(from, to int) place {
	return place{float64(from), math.Min(float64(to), float64(from)+6), func(a attended) string {
		late := a.late(from, to)
		if len(late) < 3 {
			return fmt.Sprintf("from %d s on there are %d pulses with pictures", from, len(late))
		}
		if m := late[len(late)/2]; math.Abs(m) > 40 {
			return fmt.Sprintf("from %d s on the sound is %.0f ms late, all %.0f", from, m, late)
		}
		return ""
	}}
}

// once is that a second has one pulse, and so has the next, a second later.
func once(second int) place {
	return place{math.Max(0, float64(second)-1), float64(second) + 2.2, func(a attended) string {
		var at [2][]float64
		for _, p := range a.Pulses {
			if i := p.Second - second; i == 0 || i == 1 {
				at[i] = append(at[i], p.At)
			}
		}
		if len(at[0]) != 1 || len(at[1]) != 1 {
			return fmt.Sprintf("in second %d there are %d pulses, in the next %d", second, len(at[0]), len(at[1]))
		}
		if off := (at[1][0] - at[0][0] - 48000) / 48; math.Abs(off) > 3 { // a pulse is found by the millisecond
			return fmt.Sprintf("from the pulse of second %d to the next there are %.0f ms too many", second, off)
		}
		return ""
	}}
}

// gapless is that the tone goes on over a seam.
func gapless(i int) place {
	return place{float64(seams[i]) - 2, float64(seams[i]) + 1.2, func(a attended) string {
		if a.Apart[i] > -30 {
			return fmt.Sprintf("at %d s the tone is %.1f dB apart from its fit", seams[i], a.Apart[i])
		}
		return ""
	}}
}

// hear plays the film of a page from one second up to another.
func hear(t *testing.T, tab context.Context, from, to float64) attended {
	t.Helper()
	eval[any](t, tab, fmt.Sprintf(`window.listen(%f, %f) && null`, from, to))
	until(t, tab, "half of it was heard", fmt.Sprintf(`window.attended.over || document.getElementById('player').currentTime > %f`, (from+to)/2))
	until(t, tab, "it was heard", `window.attended.over`)
	return eval[attended](t, tab, fmt.Sprintf(measure, strings.Join(strings.Fields(fmt.Sprint(seams)), ",")))
}

// TestSoundAndPictureTogether: what a viewer hears and sees, as the player gives it to the
// machine. In each stretch between seams of sound it comes within 40 ms of the picture;
// each pulse is heard once, a second after the one before; and over the seams, of pictures and
// of sound, a tone goes on as if there were none. A machine that stands still for a moment
// disturbs that, so a bad place is heard again; a fault of the film is there every time.
func TestSoundAndPictureTogether(t *testing.T) {
	s := stacktest.Start(t, stack.Options{Workers: 1})
	user := newUser(t, s)
	tab := open(t)
	bypass := page.SetBypassCSPParams{Enabled: true} // the page's policy allows no script of ours that keeps samples
	if _, err := chromedp.Call(tab, page.SetBypassCSP, bypass); err != nil {
		t.Fatal(err)
	}
	watch := func(id string) {
		t.Helper()
		visit(t, tab, s.BaseURL()+"/watch/"+id)
		playable(t, tab, "watch")
		if _, err := chromedp.Run(tab, chromedp.Evaluate[any](attend+`.then(() => null)`, chromedp.EvalAwaitPromise)); err != nil {
			t.Fatalf("attend: %v", err)
		}
	}

	const seconds, heard = 43, 33 // a film that is shorter has no portion that begins at 30 s
	v := uploadedAndReady(t, user, client.NewVideo{Title: "Pulses"}, pulsing(t, seconds, 0))
	portions := 0
	for _, step := range stepsOf(t, user, v.Id) {
		if step.Step == "audio" {
			portions++
		}
	}
	if portions != 3 {
		t.Fatalf("the sound was made in %d portions, want 3, with seams at 6 and 30 s", portions)
	}
	places := []place{together(0, 6), together(6, 30), together(30, heard)}
	for second := range heard - 1 {
		places = append(places, once(second))
	}
	for i := range seams {
		places = append(places, gapless(i))
	}
	for range 2 { // a second time only if so much is bad that hearing it all again is quicker
		watch(v.Id)
		got := hear(t, tab, 0, heard)
		if all := got.late(0, heard); len(all) > 0 {
			t.Logf("the sound is %.0f ms late, %.0f to %.0f ms", all[len(all)/2], all[0], all[len(all)-1])
		}
		t.Logf("%d pulses, %d pictures, loudest %.2f, stalls at %.2f; at %v s the tone is %.1f dB apart from its fit", len(got.Pulses), got.Pictures, got.Loudest, got.Waiting, seams, got.Apart)
		places = slices.DeleteFunc(places, func(p place) bool { return p.wrong(got) == "" })
		if len(places) <= 6 {
			break
		}
	}
	for _, p := range places {
		wrong := "it was disturbed before"
		for tries := 0; tries < 3 && wrong != ""; tries++ {
			wrong = p.wrong(hear(t, tab, p.from, p.to))
			t.Logf("heard again from %.0f to %.1f s: %q", p.from, p.to, wrong)
		}
		if wrong != "" {
			t.Errorf("every time: %s", wrong)
		}
	}

	t.Run("measure", func(t *testing.T) { // it sees sound that is late
		const late, short = 120 * time.Millisecond, 6
		v := uploadedAndReady(t, user, client.NewVideo{Title: "Late"}, pulsing(t, short, late))
		var all []float64
		for tries := 0; tries < 3 && len(all) < 3; tries++ {
			watch(v.Id)
			got := hear(t, tab, 0, short-0.3)
			all = got.late(0, short)
			t.Logf("%d pulses, %d pictures, loudest %.2f", len(got.Pulses), got.Pictures, got.Loudest)
		}
		if len(all) < 3 {
			t.Fatalf("%d pulses with pictures", len(all))
		}
		m := all[len(all)/2]
		t.Logf("sound that is 120 ms late is %.0f ms late, %.0f to %.0f ms", m, all[0], all[len(all)-1])
		if math.Abs(m-120) > 40 {
			t.Errorf("sound that is 120 ms late is %.0f ms late", m)
		}
	})
}
