package ffmpeg

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/cutroom/cutroom/shared/video"
)

const (
	// sampleBytes is the size of a sample of placed sound: 32 bits for each channel.
	sampleBytes = 4 * AudioChannels
	// jitter is how far beside its place a decoded frame may be and still follow the one
	// before it, in samples: 30 ms, within which sound seems to belong to the picture.
	// Containers round, and recorders are late. What is further away is a gap, or comes
	// again.
	jitter = 3 * video.SampleRate / 100
)

// place writes the samples of a job's range, each to its place, and returns where the
// decoded sound ends, in samples of the track. Silence fills gaps, what comes again is
// left out, and a track that ends sooner than Pad goes on in silence.
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
	track := &track{out: bufio.NewWriterSize(out, 1<<20), at: j.From, to: j.To}
	end, err = track.fill(bufio.NewReaderSize(in, 1<<20), frames)
	if err == nil {
		err = track.silence(min(j.Pad, j.To))
	}
	return end, errors.Join(err, track.out.Flush(), out.Close())
}

// track is a range of sound that is written from its beginning to its end.
type track struct {
	out    *bufio.Writer
	at, to int64 // the sample that is written next, and the one to stop at
}

// fill writes the frames, and returns the sample where they end.
func (t *track) fill(in io.Reader, frames frameList) (end int64, err error) {
	for i, at := range frames.at {
		if late := at - end; i == 0 || late > jitter || late < -jitter {
			end = at
		}
		samples := frames.bytes[i] / sampleBytes
		if err := t.frame(in, end, samples); err != nil {
			return end, err
		}
		end += samples
	}
	return end, nil
}

// frame writes what of a frame is in the range, and was not written yet.
func (t *track) frame(in io.Reader, at, samples int64) error {
	if err := t.silence(min(at, t.to)); err != nil {
		return err
	}
	skip := min(max(0, t.at-at), samples)
	keep := min(samples-skip, t.to-t.at)
	for _, part := range []struct {
		to      io.Writer
		samples int64
	}{{io.Discard, skip}, {t.out, keep}, {io.Discard, samples - skip - keep}} {
		if _, err := io.CopyN(part.to, in, part.samples*sampleBytes); err != nil {
			return fmt.Errorf("reading decoded sound: %w", err)
		}
	}
	t.at += keep
	return nil
}

// silence goes on to a sample that lies ahead.
func (t *track) silence(to int64) error {
	if to <= t.at {
		return nil
	}
	_, err := io.CopyN(t.out, zeros{}, (to-t.at)*sampleBytes)
	t.at = to
	return err
}

// zeros is silence without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
