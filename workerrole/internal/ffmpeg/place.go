package ffmpeg

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

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
func (j SoundJob) place() (end int64, err error) {
	frames, err := readFrames(filepath.Join(j.Dir, framesFile))
	if err != nil {
		return 0, err
	}
	if len(frames.at) > 0 && frames.base != (video.Rational{Num: 1, Den: video.SampleRate}) {
		return 0, fmt.Errorf("decoded sound counts in %s s", frames.base)
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
	for i, at := range frames.places() {
		frame := make([]byte, frames.bytes[i])
		if _, err := io.ReadFull(decoded, frame); err != nil {
			return 0, fmt.Errorf("reading decoded sound: %w", err)
		}
		end = at + frames.samples(i)
		if from, to := max(at, j.From), min(end, j.To); from < to {
			_, err := out.WriteAt(frame[(from-at)*sampleBytes:(to-at)*sampleBytes], (from-j.From)*sampleBytes)
			if err != nil {
				return 0, err
			}
		}
	}
	// What was not written is zero, which is silence.
	return end, out.Truncate(max(0, min(max(end, j.Pad), j.To)-j.From) * sampleBytes)
}

// samples is how many samples a frame has, as they are written down.
func (l frameList) samples(i int) int64 { return l.bytes[i] / sampleBytes }

// places are the samples of the track that frames begin with.
func (l frameList) places() []int64 {
	places := slices.Clone(l.at)
	// ffmpeg writes no time before the last one that it wrote, but that one or the next
	// tick. So where times go back, they are counted from the first that does not.
	for i := len(places) - 2; i > 0; i-- {
		if l.at[i] <= l.at[i-1]+1 {
			places[i] = places[i+1] - l.samples(i)
		}
	}
	for i := 1; i < len(places); i++ {
		follows := places[i-1] + l.samples(i-1)
		if late := places[i] - follows; late <= jitter && late >= -jitter {
			places[i] = follows
		}
	}
	return places
}
