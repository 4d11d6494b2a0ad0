package differential_test

import (
	"flag"
	"fmt"
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
	films     = flag.Int("films", 15, "how many films to draw")
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
	seeds := []uint64{501196} // joined MPEG-TS, the rate of whose MP2 changes: was red once
	for seed := first; seed < first+uint64(*films); seed++ {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			f, dir := draw(seed), t.TempDir()
			path := f.make(t, dir)
			v := ready(t, s.BaseURL(), f, path)
			at := s.BaseURL() + "/v/" + v.Id + "/"
			stream := marksOf(t, at+v.Renditions[0].Name+".m3u8", at+"audio.m3u8")
			download := marksOf(t, at+"download.mp4", at+"download.mp4")
			if f.recordedIs(stream) && f.recordedIs(download) {
				return
			}
			want := f.onePass(t, path, dir)
			for what, got := range map[string]marks{"stream": stream, "download": download} {
				if problems := got.differ(want, f.pairOff()); len(problems) > 0 {
					t.Errorf("the %s of %v:\n%s\none pass %v\ngot      %v", what, f, strings.Join(problems, "\n"), want, got)
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

func (f film) pairOff() float64 {
	if len(f.recordings) > 1 {
		return seamOff
	}
	return pairOff
}

// onePass is what one pass of ffmpeg makes of the film.
func (f film) onePass(t *testing.T, path, dir string) marks {
	t.Helper()
	one := filepath.Join(dir, "one.mp4")
	ffmpeg(t, "-i", path, "-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac", one)
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
