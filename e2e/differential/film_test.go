package differential_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// recording is one of those that a film consists of.
type recording struct {
	size               string
	rate               int // pictures a second
	channels, sampling int
}

// film has a white flash and a beep at each full second of each of its recordings, and
// a ground of one colour.
type film struct {
	container, codec, sound string
	recordings              []recording
	seconds                 int     // of each recording
	jump                    float64 // seconds by which the time stamps of the next one leap; 0: they begin again
	late                    float64 // seconds by which the sound begins later than the pictures
	longer                  int     // seconds of sound after the pictures
	keyframes, between      int     // pictures from keyframe to keyframe; B-frames
	cut                     float64 // seconds that an edit list hides
	interlaced, sparse      bool    // fields; two of three pictures left out after 2 s
	commentary              bool    // another track comes before the one with the default flag
	fragmented              bool
	matrix, levels          string // of the colours, "" untagged
}

// known are films that were wrong once.
var known = map[string]film{
	"joined MPEG-TS, the rate of whose MP2 changes": {
		container: "mpegts", codec: "libx264", sound: "mp2", seconds: 6, jump: 3700, keyframes: 100, between: 2,
		recordings: []recording{{"96x64", 50, 1, 44100}, {"96x64", 50, 1, 48000}},
	},
	"advertisements, whose sound begins before the end of that before it": {
		container: "mpegts", codec: "libx264", sound: "aac", seconds: 3, jump: 0.001, keyframes: 60,
		recordings: []recording{{"96x64", 50, 1, 48000}, {"96x64", 50, 2, 48000}, {"96x64", 50, 1, 48000}},
	},
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// ground is the colour of what does not flash, where colours are compared.
var ground = [3]int{200, 40, 90}

// draw draws a film. The same seed draws the same film.
func draw(seed uint64) film {
	r := rand.New(rand.NewPCG(seed, 0))
	f := film{
		container: pick(r, "mp4", "mov", "matroska", "mpegts", "mpegts", "vob", "avi", "flv", "webm", "ogg", "asf"), codec: "libx264", sound: "aac",
		seconds: 4 + r.IntN(4), keyframes: pick(r, 12, 30, 100), between: pick(r, 0, 2),
	}
	first := recording{size: "96x64", rate: pick(r, 24, 25, 30, 50), channels: pick(r, 1, 2, 6), sampling: pick(r, 44100, 48000)}
	switch f.container {
	case "webm":
		f.codec, f.sound, first.sampling, f.between = "libvpx", pick(r, "libopus", "libvorbis"), 48000, 0
	case "ogg":
		f.codec, f.sound, f.between = "libtheora", "libvorbis", 0
	case "vob":
		f.codec, f.sound, first.rate, first.sampling = "mpeg2video", pick(r, "mp2", "ac3"), pick(r, 25, 30), 48000
	case "avi":
		f.codec, f.sound, f.between = "mpeg4", "libmp3lame", 0
	case "asf":
		f.codec, f.sound, f.between = "wmv2", "wmav2", 0
	case "mpegts":
		f.sound = pick(r, "aac", "ac3", "mp2")
	case "matroska":
		f.sound = pick(r, "aac", "ac3", "mp2", "flac", "pcm_s16le")
	case "mov":
		f.sound = pick(r, "aac", "pcm_s16le")
	}
	if f.container == "flv" {
		first.sampling = 44100
	}
	if f.container == "flv" || f.container == "asf" || f.sound == "mp2" || f.sound == "libmp3lame" {
		first.channels = pick(r, 1, 2)
	}
	f.recordings = []recording{first}
	f.oddity(r)
	return f
}

// oddity makes one thing about the film unusual, or two.
func (f *film) oddity(r *rand.Rand) {
	x264 := f.codec == "libx264"
	indexed := f.container == "mp4" || f.container == "mov" || f.container == "matroska"
	first := f.recordings[0]
	switch kind := r.IntN(9); {
	case kind <= 1 && f.container == "mpegts":
		second := first
		switch r.IntN(4) {
		case 0:
			second.channels = 2
		case 1:
			second.size = "64x64"
		case 2:
			second.rate, second.sampling = pick(r, 25, 50), 48000
		}
		f.recordings = append(f.recordings, second)
		f.jump = pick(r, 0, 0, -0.02, 0.001, 0.03, 0.5, 60, 3700)
	case kind == 2 && f.container != "avi" && f.container != "flv" && f.container != "asf" && f.container != "ogg":
		f.late = pick(r, -1.3, -0.42, 0.35, 1.28)
	case kind == 3 && x264 && first.rate <= 30:
		f.interlaced, f.between = true, 0
	case kind == 4:
		f.longer = 2
	case kind == 5 && x264:
		f.matrix, f.levels = pick(r, "bt709", "smpte170m"), pick(r, "tv", "pc")
	case kind == 5 && indexed, kind == 6 && f.container == "matroska":
		f.commentary = f.container == "matroska"
	case kind == 6 && f.container == "mov":
		f.codec, f.between, f.matrix, f.levels = "png", 0, "rgb", "pc"
	case kind == 7 && (f.container == "mp4" || f.container == "mov"):
		f.cut = pick(r, 0.7, 1.5, 2)
	case kind == 8 && x264 && indexed:
		f.sparse = true
	}
	f.fragmented = f.container == "mp4" && f.cut == 0 && r.IntN(4) == 0
}

func (f film) String() string {
	type plain film // without this method
	return strings.Trim(fmt.Sprintf("%+v", plain(f)), "{}")
}

// make writes the film into dir.
func (f film) make(t *testing.T, dir string) (path string) {
	t.Helper()
	path = filepath.Join(dir, "film")
	var parts []string
	for i := range f.recordings {
		part := filepath.Join(dir, fmt.Sprintf("recording%d", i))
		ffmpeg(t, append(f.arguments(i), part)...)
		parts = append(parts, part)
	}
	if f.cut > 0 {
		ffmpeg(t, "-ss", seconds(f.cut), "-i", parts[0], "-c", "copy", "-f", f.container, path)
		return path
	}
	var whole []byte
	for _, part := range parts {
		data, err := os.ReadFile(part)
		if err != nil {
			t.Fatal(err)
		}
		whole = append(whole, data...)
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func seconds(s float64) string { return strconv.FormatFloat(s, 'f', 3, 64) }

// arguments are those of ffmpeg for a recording, without the name of the file.
func (f film) arguments(i int) (args []string) {
	r := f.recordings[i]
	later := func(s float64) []string {
		if s <= 0 {
			return nil
		}
		return []string{"-ss", seconds(s), "-itsoffset", seconds(s)} // it begins later, with what belongs there
	}
	sound := fmt.Sprintf("aevalsrc='0.8*cos(2*PI*1000*t)*lt(mod(t,1),0.1)':s=%d:d=%d,aformat=channel_layouts=mono,pan=%s", r.sampling, f.seconds+f.longer, pan(r.channels))
	args = append(args, later(-f.late)...)
	args = append(args, "-f", "lavfi", "-i", f.pictures(r))
	args = append(args, later(f.late)...)
	args = append(args, "-f", "lavfi", "-i", sound)
	if f.commentary {
		args = append(args, "-f", "lavfi", "-i", fmt.Sprintf("anoisesrc=c=pink:a=0.5:r=48000:seed=1:d=%d", f.seconds),
			"-map", "0", "-map", "2", "-map", "1", "-disposition:a:0", "0", "-disposition:a:1", "default")
	}
	args = append(args, "-c:v", f.codec, "-g", strconv.Itoa(f.keyframes), "-c:a", f.sound)
	switch f.codec {
	case "libx264":
		args = append(args, "-preset", "ultrafast", "-bf", strconv.Itoa(f.between), "-pix_fmt", "yuv420p")
	case "libvpx":
		args = append(args, "-deadline", "realtime", "-cpu-used", "16", "-b:v", "400k")
	case "png":
		args = append(args, "-pix_fmt", "rgb24")
	default:
		args = append(args, "-bf", strconv.Itoa(f.between), "-pix_fmt", "yuv420p", "-b:v", "400k")
	}
	if f.matrix != "" && f.matrix != "rgb" {
		args = append(args, "-colorspace", f.matrix, "-color_primaries", "bt709", "-color_trc", "bt709", "-color_range", f.levels)
	}
	if f.interlaced {
		args = append(args, "-flags", "+ilme+ildct")
	}
	if f.container == "vob" { // around a keyframe out of turn, times are guessed: accepted
		args = append(args, "-sc_threshold", "1000000000")
	}
	if f.fragmented {
		args = append(args, "-movflags", "frag_keyframe+empty_moov")
	}
	if f.sparse {
		args = append(args, "-fps_mode", "vfr")
	}
	if i > 0 && f.jump != 0 {
		args = append(args, "-output_ts_offset", seconds(float64(i)*(float64(f.seconds)+f.jump)))
	}
	return append(args, "-f", f.container)
}

// pictures is the source of a recording's pictures for ffmpeg.
func (f film) pictures(r recording) string {
	rate, colour := r.rate, "black"
	if f.interlaced {
		rate *= 2
	}
	if f.matrix != "" {
		colour = fmt.Sprintf("0x%02X%02X%02X", ground[0], ground[1], ground[2])
	}
	s := fmt.Sprintf("color=%s:s=%s:r=%d:d=%d,format=rgb24,drawbox=c=white:t=fill:enable='lt(mod(t+0.001,1),0.1)'", colour, r.size, rate, f.seconds)
	if f.matrix != "" && f.matrix != "rgb" {
		s += fmt.Sprintf(",scale=out_color_matrix=%s:out_range=%s,format=yuv420p", f.matrix, f.levels)
	}
	if f.interlaced {
		s += ",format=yuv420p,tinterlace=interleave_bottom"
	}
	if f.sparse {
		s += `,select='lt(t\,2)+lt(mod(t+0.001\,1)\,0.15)+not(mod(n\,3))'`
	}
	return s
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
