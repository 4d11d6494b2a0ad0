package ffmpeg

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	ff "github.com/u2takey/ffmpeg-go"

	"github.com/cutroom/cutroom/shared/video"
)

// soundGrid says where the frames of an audio stream lie when they follow one
// another without a gap: at start + n × size samples of the source's own rate.
//
// Matroska rounds to milliseconds. One run of ffmpeg counts samples from the first time
// stamp; a run that starts elsewhere counts from another, rounded otherwise, and would put
// the same sample up to a millisecond beside. On the grid both agree.
type soundGrid struct {
	start, size int64
	reach       int64 // how far beside the grid a frame may be and still belong on it
}

// soundGrid looks at the first frames of a Matroska file: for their grid, and for whether
// reading may start elsewhere. It must not where frames are of different lengths, as those
// of Vorbis are: then a sample's time is known only by counting from the start.
func (t *Tool) soundGrid(ctx context.Context, job SoundJob) (grid soundGrid, canSeek bool, _ error) {
	out := t.soundInput(job.Source, 0).
		Output(framesFile, ff.KwArgs{"c:a": "pcm_s16le", "frames:a": "5", "avoid_negative_ts": "disabled", "f": "framecrc"})
	_, err := t.ffmpeg(ctx, "looking for the first samples", command{dir: job.Dir, source: job.Source, limits: sounding}, out, startAtZero...)
	if errors.As(err, new(*RunError)) {
		return grid, false, nil // what cannot be decoded will be told
	}
	if err != nil {
		return grid, false, err
	}
	first, err := readFrames(filepath.Join(job.Dir, framesFile))
	if err != nil || len(first.frames) < 3 { // there is nothing to place
		return grid, true, err
	}
	// The first frame may be short: decoders drop what encoders put in front.
	begin, size := first.frames[0], first.frames[1].length
	// This frame and that of another run may both be rounded, by some muxers twice.
	reach := (first.base.Den+999)/1000*3/2 + 1
	nearest := size >= 4*reach // else the nearest place might be the wrong one
	if !nearest || slices.ContainsFunc(first.frames[1:], func(f frame) bool { return f.length != size }) {
		return grid, false, nil
	}
	return soundGrid{start: begin.at + begin.length, size: size, reach: reach}, true, nil
}

// expression moves frames onto the grid, in the words of asetpts.
func (g soundGrid) expression() string {
	if g.size == 0 {
		return ""
	}
	return fmt.Sprintf("st(0,PTS-(%d));st(1,round(ld(0)/%d)*%d);if(lte(abs(ld(0)-ld(1)),%d),ld(1)+(%d),PTS)",
		g.start, g.size, g.size, g.reach, g.start)
}

const (
	// sampleBytes is the size of a sample of placed sound: 32 bits for each channel.
	sampleBytes = 4 * AudioChannels
	// jitter is how far beside its place a decoded frame may be and still follow the one
	// before it, in samples: 15 ms. Containers round, and recorders are late. What is
	// further away is a gap, such as one lost packet leaves, or where recordings meet.
	jitter = 3 * video.SampleRate / 200
)

// place writes the samples of a job's range, each to its place, and returns where the
// decoded sound ends, in samples of the track. Silence fills gaps; where sound overlaps, the
// later is heard, as the later picture is seen; a track that ends sooner than Pad goes on
// in silence.
func (j SoundJob) place(list frameList) (end int64, err error) {
	if len(list.frames) > 0 && list.base != (video.Rational{Num: 1, Den: video.SampleRate}) {
		return 0, fmt.Errorf("decoded sound counts in %s s", list.base)
	}
	in, err := os.Open(filepath.Join(j.Dir, decodedFile))
	if err != nil {
		return 0, err
	}
	defer func() { _ = in.Close() }()
	out, err := os.Create(filepath.Join(j.Dir, placedFile))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	decoded := bufio.NewReaderSize(in, 1<<20)
	for i, at := range list.places() {
		samples := make([]byte, list.frames[i].bytes)
		if _, err := io.ReadFull(decoded, samples); err != nil {
			return 0, fmt.Errorf("reading decoded sound: %w", err)
		}
		end = at + list.frames[i].samples()
		if from, to := max(at, j.From), min(end, j.To); from < to {
			_, err := out.WriteAt(samples[(from-at)*sampleBytes:(to-at)*sampleBytes], (from-j.From)*sampleBytes)
			if err != nil {
				return 0, err
			}
		}
	}
	// What was not written is zero, which is silence.
	return end, out.Truncate(max(0, min(max(end, j.Pad), j.To)-j.From) * sampleBytes)
}

// frameList is what the muxer framecrc says about the frames of a stream.
type frameList struct {
	base   video.Rational // seconds of a tick
	frames []frame
}

type frame struct {
	at, length int64 // ticks
	bytes      int64
}

func (l frameList) beginsBy(second int64) bool {
	return len(l.frames) > 0 && l.frames[0].at <= second*video.SampleRate+jitter
}

// samples is how many samples a frame has, as they are written down.
func (f frame) samples() int64 { return f.bytes / sampleBytes }

func readFrames(path string) (list frameList, _ error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return list, fmt.Errorf("reading the list of frames: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		var f frame
		if base, is := strings.CutPrefix(line, "#tb 0: "); is {
			list.base, err = video.ParseRational(strings.TrimSpace(base))
		} else if !strings.HasPrefix(line, "#") {
			_, err = fmt.Sscanf(line, "0,%d,%d,%d,%d,", new(int64), &f.at, &f.length, &f.bytes)
			list.frames = append(list.frames, f)
		}
		if err != nil {
			return list, fmt.Errorf("reading the list of frames: %q: %w", line, err)
		}
	}
	return list, nil
}

// places are the samples of the track that frames begin with.
func (l frameList) places() []int64 {
	places := make([]int64, len(l.frames))
	for i, f := range slices.Backward(l.frames) {
		places[i] = f.at
		// ffmpeg writes no time before the last one that it wrote, but that one or the next
		// tick. So where times go back, they are counted from the first that does not.
		if i > 0 && i+1 < len(places) && f.at <= l.frames[i-1].at+1 {
			places[i] = places[i+1] - f.samples()
		}
	}
	for i := 1; i < len(places); i++ {
		follows := places[i-1] + l.frames[i-1].samples()
		if late := places[i] - follows; late <= jitter && late >= -jitter {
			places[i] = follows
		}
	}
	return places
}
