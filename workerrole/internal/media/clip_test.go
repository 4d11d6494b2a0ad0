package media_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/testkit/mediatest"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
	"github.com/cutroom/cutroom/workerrole/internal/media"
)

// presentation is the encoding as the rows have it, with files for blobs.
func (e encoding) presentation() playlist.Presentation {
	p := playlist.Presentation{Plan: e.plan, AudioDone: true}
	for _, c := range e.chunks {
		p.Chunks = append(p.Chunks, &c)
	}
	offset := int64(0) // all parts are one file
	for _, part := range e.parts {
		length := part.Init.Length
		part.Segments = slices.Clone(part.Segments)
		for i := range part.Segments {
			length += part.Segments[i].Length
			part.Segments[i].Offset += offset
		}
		part.Blob = e.audio
		offset += length
		p.Parts = append(p.Parts, part)
	}
	return p
}

// gather writes pieces into a file, as the step does with blobs.
func gather(t *testing.T, pieces []media.Piece, path string) (size int) {
	t.Helper()
	var all bytes.Buffer
	for _, p := range pieces {
		data, err := os.ReadFile(p.Blob)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data[p.Offset : p.Offset+p.Length])
	}
	write(t, path, all.Bytes())
	return all.Len()
}

// clip makes a clip from the pieces that hold it, and no others.
func clip(t *testing.T, tool *ffmpeg.Tool, e encoding, first, frames int64) (path string) {
	t.Helper()
	dir, p := t.TempDir(), e.presentation()
	job := ffmpeg.ClipJob{
		Video: filepath.Join(dir, "video.mp4"), Out: filepath.Join(dir, "clip.mp4"),
		FPS: e.plan.FPS, First: first, Frames: frames, MaxRate: e.plan.Renditions[0].MaxRate,
	}
	gather(t, media.Pictures(p, first, first+frames), job.Video)
	if e.plan.HasAudio {
		job.Audio = filepath.Join(dir, "audio.mp4")
		gather(t, media.Sound(p, ffmpeg.Samples(e.plan.FPS, first), ffmpeg.Samples(e.plan.FPS, first+frames)), job.Audio)
	}
	if err := media.MakeClip(t.Context(), tool, job); err != nil {
		t.Fatalf("MakeClip(%d, %d): %v", first, frames, err)
	}
	return job.Out
}

// A clip has exactly the frames that were asked for, the first at time 0, and
// their sound, wherever it lies between keyframes, segments and chunks.
func TestClipStartsAtItsFrame(t *testing.T) {
	t.Parallel()
	tool := tool(t)
	for name, c := range map[string]struct {
		rate   string
		silent bool
	}{"25": {"25", false}, "29.97": {"30000/1001", false}, "25 silent": {"25", true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := filepath.Join(t.TempDir(), "source")
			sound := flashBeep("16x16", "25", 10)[4:]
			if c.silent {
				sound = nil
			}
			mediatest.FFmpeg(t, numbered("192x108", c.rate, 10), sound, mediatest.X264(250), []string{"-bf", "2", "-f", "mp4", source})
			src, info := probe(t, tool, source)
			plan, err := media.Plan(info)
			if err != nil {
				t.Fatal(err)
			}
			e := encode(t, tool, src, manySeams(plan))
			second := plan.FPS.Frames(1)
			for _, part := range [][2]int64{
				{0, 1}, {0, second}, {1, 7}, {second - 1, 2}, {second, second}, // around the first seam
				{second + 1, 3 * second}, {3*second - 1, second}, {3 * second, 1}, // around the second
				{2*second + second/2, 4 * second}, {plan.Frames - second, second}, {plan.Frames - 1, 1}, {0, plan.Frames},
			} {
				first, frames := part[0], part[1]
				path := clip(t, tool, e, first, frames)
				for i, n := range decodedFrames(t, path, plan.FPS, plan.Renditions[0]) {
					if n != int64(i) {
						t.Fatalf("clip %v: frame %d is shown at the time of frame %d", part, i, n)
					}
				}
				pictures := thumbs(t, "-i", path, "-map", "0:v", "-vf", fmt.Sprintf("scale=%d:%d,format=gray", thumbWidth, thumbHeight))
				if int64(len(pictures)) != frames {
					t.Fatalf("clip %v has %d frames", part, len(pictures))
				}
				for i, grey := range pictures {
					if got := numberOf(grey, thumbWidth, thumbHeight); int64(got) != first+int64(i) {
						t.Fatalf("clip %v: picture %d is frame %d of the source", part, i, got)
					}
				}
				checkClipSound(t, path, plan, first, frames)
			}
		})
	}
}

// checkClipSound looks for the beeps, of which one starts with every second.
func checkClipSound(t *testing.T, path string, plan video.Plan, first, frames int64) {
	t.Helper()
	streams := string(output(t, "ffprobe", "-v", "warning", "-show_entries", "stream=codec_type", "-of", "csv=p=0", path))
	if strings.Contains(streams, "audio") != plan.HasAudio {
		t.Fatalf("the clip has streams %q", streams)
	}
	if !plan.HasAudio {
		return
	}
	raw := output(t, "ffmpeg", "-nostdin", "-v", "warning", "-copyts", "-i", path, "-map", "0:a:0",
		"-af", "aresample=48000:async=1:first_pts=0", "-ac", "1", "-f", "s16le", "-")
	from, length := plan.FPS.Seconds(first), plan.FPS.Seconds(frames)
	if got := float64(len(raw)/2) / video.SampleRate; math.Abs(got-length) > 0.03 {
		t.Errorf("clip at %.3f s has %.3f s of sound, want %.3f", from, got, length)
	}
	loud := func(at float64) bool { // within 2 ms
		peak := 0
		for n := range video.SampleRate / 500 {
			i := 2 * (int(at*video.SampleRate) + n)
			if i < 0 || i+1 >= len(raw) {
				break
			}
			s := int(int16(binary.LittleEndian.Uint16(raw[i:])))
			peak = max(peak, s, -s)
		}
		return peak > 8000
	}
	for second := math.Ceil(from); second < min(from+length-0.01, 10); second++ { // the source has 10
		at := second - from
		if at > 0.01 && loud(at-0.005) || !loud(at+0.003) {
			t.Errorf("clip at %.3f s: the beep of %.3f s is not where it belongs", from, at)
		}
	}
	if inside := from - math.Floor(from); inside > 0.001 && inside < 0.09 && !loud(0) {
		t.Errorf("clip at %.3f s: the sound starts late", from)
	}
}

// The same clip has the same bytes on every try (Q8).
func TestClipIsDeterministic(t *testing.T) {
	t.Parallel()
	tool := tool(t)
	source := filepath.Join(t.TempDir(), "source")
	mediatest.FFmpeg(t, mediatest.Moving("320x180", "30", 6), mediatest.Hum(48000, 6), mediatest.X264(90), []string{"-f", "mp4", source})
	src, info := probe(t, tool, source)
	plan, err := media.Plan(info)
	if err != nil {
		t.Fatal(err)
	}
	e := encode(t, tool, src, plan)
	var first []byte
	for range 4 {
		data, err := os.ReadFile(clip(t, tool, e, 37, 120))
		if err != nil {
			t.Fatal(err)
		}
		if first != nil && !bytes.Equal(first, data) {
			t.Error("the same clip has other bytes")
		}
		first = data
		if moov, mdat := bytes.Index(data, []byte("moov")), bytes.Index(data, []byte("mdat")); moov < 0 || moov > mdat {
			t.Errorf("the index is at %d, behind the content at %d", moov, mdat)
		}
	}
}

// numberBits is how many vertical stripes numbered draws.
const numberBits = 12

// numbered is a lavfi source whose every frame says its number, below 4096: in
// stripes from left to right, white for a bit that is set, the lowest first.
// numberOf reads it.
func numbered(size, rate string, seconds int) []string {
	return []string{"-f", "lavfi", "-i", fmt.Sprintf(
		"color=black:s=%s:r=%s:d=%d,geq=lum='16+219*mod(floor(N/pow(2,floor(%d*X/W))),2)':cb=128:cr=128", size, rate, seconds, numberBits)}
}

// numberOf reads the number from a grey picture of a frame of numbered, one byte
// for each pixel.
func numberOf(grey []byte, width, height int) int {
	number := 0
	for bit := range numberBits {
		middle := height/2*width + (2*bit+1)*width/(2*numberBits)
		if grey[middle] > 128 {
			number |= 1 << bit
		}
	}
	return number
}
