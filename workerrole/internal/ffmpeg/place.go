package ffmpeg

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cutroom/cutroom/shared/video"
)

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

// beginsBy reports whether decoded sound begins by a second.
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
