package media_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
	"github.com/cutroom/cutroom/workerrole/internal/media"
)

// encoding is a whole video, encoded chunk by chunk as workers do it.
type encoding struct {
	source ffmpeg.Source
	plan   video.Plan
	chunks []video.ChunkOutput
	joined []string // file of each rendition: init segment of chunk 0, then all segments
	audio  string   // file of the whole track, or empty
	parts  []video.AudioPart
}

// probe opens a clip, remuxing it when it must be.
func probe(t *testing.T, tool *ffmpeg.Tool, path string) (ffmpeg.Source, ffmpeg.Info) {
	t.Helper()
	src := ffmpeg.Source{URL: path}
	info, err := tool.Probe(t.Context(), src)
	if err != nil {
		t.Fatalf("Probe: %v", err)
	}
	if info.NeedsRemux {
		out := filepath.Join(t.TempDir(), "remuxed")
		src.Demuxer = info.Demuxer
		if err := tool.Remux(t.Context(), src, info, out); err != nil {
			t.Fatalf("Remux: %v", err)
		}
		src = ffmpeg.Source{URL: out}
		if info, err = tool.Probe(t.Context(), src); err != nil {
			t.Fatalf("Probe of the remuxed copy: %v", err)
		}
		if info.NeedsRemux {
			t.Fatal("the remuxed copy needs to be remuxed again")
		}
	}
	src.Demuxer, src.Heard = info.Demuxer, info.Audio.Heard
	return src, info
}

// manySeams cuts a plan into short chunks, so that a clip of seconds has several
// seams, and gives it a second rendition. Each chunk and each portion costs the start of
// an ffmpeg, which takes longer than the encoding of some seconds of a small picture.
func manySeams(p video.Plan) video.Plan {
	p.SegmentFrames = p.FPS.Frames(1)
	p.Chunks = nil
	for from := int64(0); from < p.Frames; {
		to := from + 3*p.SegmentFrames
		if len(p.Chunks) == 0 {
			to = from + p.SegmentFrames
		}
		if to+p.SegmentFrames/2 >= p.Frames {
			to = p.Frames
		}
		p.Chunks = append(p.Chunks, video.Chunk{From: from, To: to})
		from = to
	}
	if p.HasAudio {
		last := p.Sound[len(p.Sound)-1].End
		p.Sound = nil
		for first := range last {
			p.Sound = append(p.Sound, video.SoundPortion{First: first, End: first + 1})
		}
	}
	r := p.Renditions[0]
	p.Renditions = append(p.Renditions, video.Rendition{Name: "tiny", Width: r.Width / 4 * 2, Height: r.Height / 4 * 2, MaxRate: 100_000})
	return p
}

// encode runs every step on a clip and joins what comes out.
func encode(t *testing.T, tool *ffmpeg.Tool, src ffmpeg.Source, plan video.Plan) encoding {
	t.Helper()
	e := encoding{source: src, plan: plan}
	dir := t.TempDir()
	for i := range plan.Chunks {
		sub := filepath.Join(dir, fmt.Sprintf("chunk-%d", i))
		if err := os.Mkdir(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		c, err := media.EncodeChunk(t.Context(), tool, src, plan, i, sub)
		if err != nil {
			t.Fatalf("EncodeChunk(%d) of %v: %v", i, plan.Chunks, err)
		}
		e.chunks = append(e.chunks, c)
	}
	for r := range plan.Renditions {
		path := filepath.Join(dir, plan.Renditions[r].Name+".mp4")
		e.joined = append(e.joined, path)
		var all bytes.Buffer
		var init []byte
		for i, c := range e.chunks {
			data, err := os.ReadFile(c.Renditions[r].Blob)
			if err != nil {
				t.Fatal(err)
			}
			out := c.Renditions[r]
			if i == 0 {
				init = data[:out.Init.Length]
			} else if !bytes.Equal(data[:out.Init.Length], init) {
				t.Errorf("chunk %d of %s has another init segment", i, out.Name)
			}
			if i > 0 {
				data = data[out.Init.Length:]
			}
			all.Write(data)
		}
		write(t, path, all.Bytes())
	}
	if plan.HasAudio {
		e.audio = filepath.Join(dir, "audio.mp4")
		made := make([]video.AudioPart, len(plan.Sound))
		for i := len(made) - 1; i >= 0; i-- { // any order will do
			made[i] = encodePortion(t, tool, src, plan, i)
		}
		var all bytes.Buffer
		for _, part := range made {
			all.Write(read(t, part.Blob))
			if len(part.Segments) > 0 {
				e.parts = append(e.parts, part)
			}
		}
		write(t, e.audio, all.Bytes())
	}
	return e
}

func encodePortion(t *testing.T, tool *ffmpeg.Tool, src ffmpeg.Source, plan video.Plan, index int) video.AudioPart {
	t.Helper()
	part, _, err := media.EncodePortion(t.Context(), tool, src, plan, index, t.TempDir())
	if err != nil {
		t.Fatalf("EncodePortion(%d) of %v: %v", index, plan.Sound, err)
	}
	return part
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// output runs a program; anything it says on stderr is an error.
func output(t *testing.T, program string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil || stderr.Len() > 0 {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, stderr.String())
	}
	return out.Bytes()
}

// decodedFrames decodes a file and returns the number of every frame on the
// grid, by its timestamp. Decoder warnings and a wrong size fail the test.
func decodedFrames(t *testing.T, path string, fps video.Rational, r video.Rendition) []int64 {
	t.Helper()
	text := string(output(t, "ffprobe", "-v", "warning", "-select_streams", "v:0",
		"-show_entries", "frame=best_effort_timestamp_time:stream=codec_name,width,height,sample_aspect_ratio", "-of", "csv=p=0", path))
	if want := fmt.Sprintf("h264,%d,%d,1:1\n", r.Width, r.Height); !strings.Contains(text, want) {
		t.Errorf("%s is not %s", r.Name, want)
	} else {
		text = strings.Replace(text, want, "", 1)
	}
	var frames []int64
	for line := range strings.Lines(text) {
		if line = strings.Trim(line, ",\n "); line == "" {
			continue // after side data
		}
		at, err := strconv.ParseFloat(line, 64)
		if err != nil {
			t.Fatalf("frame time %q: %v", line, err)
		}
		n := fps.Frames(at)
		if diff := at - fps.Seconds(n); diff > 0.0001 || diff < -0.0001 {
			t.Fatalf("a frame at %f s is not on the grid of %s", at, fps)
		}
		frames = append(frames, n)
	}
	return frames
}

const thumbWidth, thumbHeight = 32, 18

// thumbs returns every frame as a small grey picture.
func thumbs(t *testing.T, args ...string) [][]byte {
	t.Helper()
	args = append([]string{"-nostdin", "-v", "fatal", "-copyts"}, args...)
	raw := output(t, "ffmpeg", append(args, "-fps_mode", "passthrough", "-f", "rawvideo", "-")...)
	var list [][]byte
	for ; len(raw) >= thumbWidth*thumbHeight; raw = raw[thumbWidth*thumbHeight:] {
		list = append(list, raw[:thumbWidth*thumbHeight])
	}
	return list
}

// onePass is the source on the plan's grid, decoded from start to end at once.
func onePass(t *testing.T, src ffmpeg.Source, plan video.Plan) [][]byte {
	t.Helper()
	return thumbs(t, "-start_at_zero", "-i", src.URL, "-filter_complex",
		fmt.Sprintf("[0:V:0]fps=%s:start_time=0,scale=%d:%d,format=gray", plan.FPS, thumbWidth, thumbHeight))
}

// distance is the mean difference of two lists of pictures, the second shifted.
func distance(a, b [][]byte, shift int) float64 {
	var sum, n float64
	for i := range a {
		j := i + shift
		if j < 0 || j >= len(b) {
			continue
		}
		for k := range a[i] {
			d := float64(a[i][k]) - float64(b[j][k])
			if d < 0 {
				d = -d
			}
			sum += d
			n++
		}
	}
	return sum / max(n, 1)
}
