package media_test

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/media"
	"github.com/cutroom/cutroom/workerrole/internal/mediatest"
)

// More films are for `make differential`, which draws others each time.
var (
	films     = flag.Int("films", 12, "how many films TestFilmsAreAsOnePassShowsThem makes")
	firstSeed = flag.Uint64("seed", 1, "seed of the first of these films; the next ones follow. 0 draws one")
)

// odd is a film with a white flash and a beep at each full second, as people have them:
// recorded, cut and joined.
type odd struct {
	container, codec, sound string
	rate                    int // pictures a second
	seconds                 int // of each recording
	late                    float64
	channels                []int // of each recording; more than one are joined
	sampleRate              int
	frames                  int // from keyframe to keyframe
	between                 int // B-frames
	interlaced              bool
	longer                  int // seconds of sound after the pictures
}

func (o odd) String() string {
	return fmt.Sprintf("%s %s %s, %d pictures a second, %d recordings of %d s with %v channels at %d Hz, streams begin %.2f s apart, groups of %d with %d B-frames, interlaced %t, %d s more sound",
		o.container, o.codec, o.sound, o.rate, len(o.channels), o.seconds, o.channels, o.sampleRate, o.late, o.frames, o.between, o.interlaced, o.longer)
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// oddFilm draws a film.
func oddFilm(seed uint64) odd {
	r := rand.New(rand.NewPCG(seed, 0))
	o := odd{
		container: pick(r, "mp4", "mov", "matroska", "mpegts", "mpegts", "vob", "avi", "flv", "webm"), codec: "libx264", sound: "aac",
		rate: pick(r, 24, 25, 30, 50), seconds: 4 + r.IntN(4), channels: []int{pick(r, 1, 2, 6)}, sampleRate: pick(r, 44100, 48000),
		frames: pick(r, 12, 30, 100), between: pick(r, 0, 2),
	}
	switch o.container {
	case "webm":
		o.codec, o.sound, o.sampleRate, o.between = "libvpx", pick(r, "libopus", "libvorbis"), 48000, 0
	case "vob":
		o.codec, o.sound, o.rate, o.sampleRate = "mpeg2video", pick(r, "mp2", "ac3"), pick(r, 25, 30), 48000
	case "avi":
		o.codec, o.sound, o.between = "mpeg4", "libmp3lame", 0
	case "mpegts", "matroska":
		o.sound = pick(r, "aac", "ac3", "mp2")
	}
	if o.sound == "mp2" || o.sound == "libmp3lame" || o.container == "flv" {
		o.channels = []int{pick(r, 1, 2)}
	}
	if o.container == "flv" {
		o.sampleRate = 44100
	}
	switch kind := r.IntN(5); {
	case kind == 0 && o.container == "mpegts": // joined recordings, of which the second may have other channels
		o.channels = append(o.channels, pick(r, o.channels[0], 2))
	case kind <= 1 && o.container != "avi" && o.container != "flv":
		o.late = pick(r, -1.3, -0.42, 0.35, 1.28)
	case kind == 2 && o.codec == "libx264" && o.rate <= 30:
		o.interlaced, o.between = true, 0
	case kind == 3:
		o.longer = 2
	}
	return o
}

// make writes the film.
func (o odd) make(t *testing.T, dir string) (path string) {
	t.Helper()
	path = filepath.Join(dir, "film")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	for i, channels := range o.channels {
		part := filepath.Join(dir, fmt.Sprintf("part%d", i))
		picture := fmt.Sprintf("color=black:s=96x64:r=%d:d=%d,drawbox=c=white:t=fill:enable='lt(mod(t+0.001,1),0.1)'", o.rate, o.seconds)
		if o.interlaced {
			picture = fmt.Sprintf("color=black:s=96x64:r=%d:d=%d,drawbox=c=white:t=fill:enable='lt(mod(t+0.001,1),0.1)',tinterlace=interleave_bottom", 2*o.rate, o.seconds)
		}
		sound := fmt.Sprintf("aevalsrc='0.8*cos(2*PI*1000*t)*lt(mod(t,1),0.1)':s=%d:d=%d,aformat=channel_layouts=mono,pan=%s", o.sampleRate, o.seconds+o.longer, pan(channels))
		from := func(seconds float64) []string {
			if seconds <= 0 {
				return nil
			}
			at := strconv.FormatFloat(seconds, 'f', 3, 64)
			return []string{"-ss", at, "-itsoffset", at} // it begins later, with what belongs there
		}
		args := join(from(-o.late), []string{"-f", "lavfi", "-i", picture}, from(o.late), []string{"-f", "lavfi", "-i", sound})
		args = append(args, "-c:v", o.codec, "-g", strconv.Itoa(o.frames), "-bf", strconv.Itoa(o.between), "-pix_fmt", "yuv420p", "-c:a", o.sound, "-b:v", "400k")
		if o.codec == "libx264" {
			args = append(args, "-preset", "ultrafast")
		}
		if o.codec == "libvpx" {
			args = append(args[:len(args)-2], "-deadline", "realtime", "-cpu-used", "16", "-b:v", "400k")
		}
		if o.interlaced {
			args = append(args, "-flags", "+ilme+ildct")
		}
		if o.container == "vob" { // around a keyframe out of turn, times are guessed: accepted
			args = append(args, "-sc_threshold", "1000000000")
		}
		mediatest.FFmpeg(t, args, []string{"-f", o.container, part})
		data := read(t, part)
		if _, err := out.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func join(parts ...[]string) (all []string) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// pan makes so many channels of one.
func pan(channels int) string {
	switch channels {
	case 1:
		return "mono|c0=c0"
	case 2:
		return "stereo|c0=c0|c1=c0"
	}
	return "5.1|c0=c0|c1=c0|c2=c0|c3=0*c0|c4=c0|c5=c0"
}

// What comes out has the flashes and the beeps of the source, where one pass of ffmpeg has
// them, and is as long. Joined recordings are compared with what was recorded, because one
// pass of ffmpeg 5.1 loses its way in them.
func TestFilmsAreAsOnePassShowsThem(t *testing.T) {
	t.Parallel()
	tool := tool(t)
	first := *firstSeed
	if first == 0 {
		first = rand.Uint64() >> 1
	}
	for seed := first; seed < first+uint64(*films); seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			film, dir := oddFilm(seed), t.TempDir()
			path := film.make(t, dir)
			src, info := probe(t, tool, path)
			plan, err := media.Plan(info, media.DefaultLimits)
			if err != nil {
				t.Fatalf("%v: %v", film, err)
			}
			if seed%2 == 0 {
				plan = manySeams(plan)
			}
			e := encode(t, tool, src, plan)
			got := marksOf(t, e.joined[0], e.audio, plan.FPS)
			want := film.recorded()
			if len(film.channels) == 1 {
				one := filepath.Join(dir, "one.mp4")
				mediatest.FFmpeg(t, []string{"-i", path, "-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac", one})
				want = marksOf(t, one, one, plan.FPS)
			}
			if problems := got.differ(want); len(problems) > 0 {
				t.Errorf("%v:\n%s\nwant %v\ngot  %v", film, strings.Join(problems, "\n"), want, got)
			}
		})
	}
}

// marks are the seconds at which flashes and beeps begin, and those at which pictures and
// sound end.
type marks struct{ flashes, beeps, ends []float64 }

// recorded is what joined recordings have.
func (o odd) recorded() (m marks) {
	for second := range o.seconds * len(o.channels) {
		m.flashes, m.beeps = append(m.flashes, float64(second)), append(m.beeps, float64(second))
	}
	end := float64(o.seconds * len(o.channels))
	m.ends = []float64{end, end}
	return m
}

// The allowed differences in seconds: of a time, to which joined recordings add a packet
// or two for each seam; of a flash from its beep; of an end.
const (
	timeOff = 0.11
	pairOff = 0.04
	endOff  = 0.25
)

func (m marks) differ(want marks) (problems []string) {
	near := func(what string, got, want []float64, off float64) {
		if len(got) != len(want) {
			problems = append(problems, fmt.Sprintf("%d %s, want %d", len(got), what, len(want)))
			return
		}
		for i := range got {
			if math.Abs(got[i]-want[i]) > off {
				problems = append(problems, fmt.Sprintf("%s %d at %.3f, want %.3f", what, i, got[i], want[i]))
			}
		}
	}
	near("flashes", m.flashes, want.flashes, timeOff)
	near("beeps", m.beeps, want.beeps, timeOff)
	near("pairs", m.pairs(), want.pairs(), pairOff)
	length := func(m marks) []float64 { return []float64{max(m.ends[0], m.ends[1])} }
	near("end", length(m), length(want), endOff)
	return problems
}

// pairs are how much later than its flash each beep begins.
func (m marks) pairs() (list []float64) {
	for _, f := range m.flashes {
		for _, b := range m.beeps {
			if math.Abs(b-f) < 0.4 {
				list = append(list, b-f)
			}
		}
	}
	return list
}

// marksOf looks at a film whose pictures and sound are in one file or in two.
func marksOf(t *testing.T, pictures, sound string, fps video.Rational) (m marks) {
	t.Helper()
	frames := thumbs(t, "-i", pictures, "-filter_complex", fmt.Sprintf("[0:V:0]fps=%s:start_time=0,scale=%d:%d,format=gray", fps, thumbWidth, thumbHeight))
	bright := func(i int) bool { return i >= 0 && frames[i][thumbWidth*thumbHeight/2] > 128 }
	for i := range frames {
		if bright(i) && !bright(i-1) {
			m.flashes = append(m.flashes, fps.Seconds(int64(i)))
		}
	}
	raw := output(t, "ffmpeg", "-nostdin", "-v", "fatal", "-copyts", "-i", sound, "-map", "0:a:0", "-af", "aresample=48000:async=1:min_hard_comp=0.005:first_pts=0", "-ac", "1", "-f", "s16le", "-")
	const quiet = video.SampleRate / 2
	for i, last := 0, -quiet; i+1 < len(raw)/2; i++ {
		if s := int16(binary.LittleEndian.Uint16(raw[2*i:])); s > 4000 || s < -4000 {
			if i-last >= quiet {
				m.beeps = append(m.beeps, float64(i)/video.SampleRate)
			}
			last = i
		}
	}
	m.ends = []float64{fps.Seconds(int64(len(frames))), float64(len(raw)/2) / video.SampleRate}
	return m
}
