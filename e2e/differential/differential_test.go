package differential_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
)

// More films are for `make differential`, which draws others each time.
var (
	count     = flag.Int("films", 15, "how many films to draw")
	firstSeed = flag.Uint64("seed", 1, "seed of the first film; the next ones follow. 0 draws one")
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// What is served has the flashes, the beeps and the colours that were recorded, or where
// one pass of ffmpeg has them, and is as long.
func TestFilmsAreAsOnePassShowsThem(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stack.Options{Workers: 1})
	first := *firstSeed
	if first == 0 {
		first = rand.Uint64() >> 1
	}
	films := maps.Clone(known)
	for seed := first; seed < first+uint64(*count); seed++ {
		films[fmt.Sprintf("seed %d", seed)] = draw(seed)
	}
	for name, f := range films {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := f.make(t, dir)
			v := ready(t, s.BaseURL(), f, path)
			at := s.BaseURL() + "/v/" + v.Id + "/"
			stream := marksOf(t, at+v.Renditions[0].Name+".m3u8", at+"audio.m3u8")
			download := marksOf(t, at+"download.mp4", at+"download.mp4")
			if f.recordedIs(stream) && f.recordedIs(download) {
				return
			}
			want := f.recorded()
			if !f.timed() {
				want = f.onePass(t, path, dir)
			}
			for what, got := range map[string]marks{"stream": stream, "download": download} {
				if problems := got.differ(want, f.pairOff()); len(problems) > 0 {
					t.Errorf("the %s of %v:\n%s\nwant %v\ngot  %v", what, f, strings.Join(problems, "\n"), want, got)
				}
			}
		})
	}
}

// ready uploads a film, and waits until all of it is made.
func ready(t *testing.T, site string, f film, path string) client.Video {
	t.Helper()
	user, err := journey.New(site)
	if err != nil {
		t.Fatal(err)
	}
	defer user.Close()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	v, err := user.Announce(t.Context(), client.NewVideo{Title: "A film of a test"})
	if err == nil {
		err = user.Put(t.Context(), v.Id, file, info.Size())
	}
	if err == nil {
		v, err = user.AwaitReady(t.Context(), v.Id)
	}
	if err != nil {
		t.Fatalf("%v: %v", f, err)
	}
	return v
}

// recordedIs reports whether what comes out is what was recorded. Where one pass of ffmpeg
// shows something else, because the container cannot say it or the pass loses its way,
// that is right, too.
func (f film) recordedIs(m marks) bool {
	return f.late == 0 && f.cut == 0 && len(m.differ(f.recorded(), f.pairOff())) == 0
}

// timed says that the pictures of a recording follow those before it, as their time stamps
// say. Sound overlaps there by a packet or two: one pass of ffmpeg is that much late.
func (f film) timed() bool { return f.jump > 0 && f.jump < 0.1 }

// pairOff is how many seconds a flash may be from its beep: half a picture, because each is
// shown for a whole one, and as much as sound may follow the sound before it (jitter in
// workerrole/internal/ffmpeg).
func (f film) pairOff() float64 {
	slowest := f.recordings[0].rate
	for _, r := range f.recordings {
		slowest = min(slowest, r.rate)
	}
	return 0.5/float64(slowest) + 0.015
}

// onePass is what one pass of ffmpeg makes of the film. Left to itself it would show some
// pictures a whole one late.
func (f film) onePass(t *testing.T, path, dir string) marks {
	t.Helper()
	one := filepath.Join(dir, "one.mp4")
	ffmpeg(t, "-i", path, "-c:v", "libx264", "-preset", "ultrafast", "-fps_mode", "passthrough", "-enc_time_base", "-1", "-c:a", "aac", one)
	m := marksOf(t, one, one)
	m.ground = f.ground()
	return m
}

// recorded is what was recorded. A leap of minutes is none: nothing was recorded meanwhile.
func (f film) recorded() (m marks) {
	gap := f.jump
	if gap > 1 {
		gap = 0
	}
	m.ground = f.ground()
	for i := range f.recordings {
		from := float64(i) * (float64(f.seconds) + gap)
		for second := range f.seconds {
			m.flashes = append(m.flashes, from+float64(second))
		}
		for second := range f.seconds + f.longer {
			m.beeps = append(m.beeps, from+float64(second))
		}
		m.end = from + float64(f.seconds+f.longer)
	}
	return m
}

func (f film) ground() [3]int {
	if f.matrix == "" {
		return [3]int{} // black
	}
	return ground
}
