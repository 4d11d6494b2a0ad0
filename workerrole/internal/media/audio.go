package media

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
)

// AudioRun is a run of newly finished audio segments: a slice of a local file
// and what it holds.
type AudioRun struct {
	Path   string // file that is still growing
	Offset int64  // first byte of the run in it
	Length int64  // bytes

	// Part is complete but for the name of the blob. Its ranges count from
	// Offset. Only the run that starts with segment 0 holds the init segment.
	Part video.AudioPart
}

const (
	// audioCadence is how often finished segments are reported after the first.
	audioCadence = time.Second
	audioPoll    = 100 * time.Millisecond
	// shortestAudio is the length below which a last segment is dropped: the
	// priming samples of AAC shift it out of its own time, and players then
	// wait for ever for something to fill the gap.
	shortestAudio = video.SampleRate / 10 // samples
)

// EncodeAudio encodes the whole audio track into dir, which must exist, and
// reports segments while it grows: the first at once, the others at most every
// second. A track that ends before the video, or holds nothing at all, is
// filled with silence: a player would stop where it ends. A source without
// audio reports nothing.
//
// The bytes are the same on every try, so a run that was interrupted is resumed
// with skip, the number of segments already committed: they are encoded again,
// which is cheap (57 times faster than playing), and not reported again
// (Q16c). An error of report ends the encoding and is returned.
//
// progress gets the samples encoded so far, whenever work has moved; it may be
// nil, and is never called concurrently with report.
func EncodeAudio(ctx context.Context, tool *ffmpeg.Tool, src ffmpeg.Source, plan video.Plan, dir string, skip int, report func(AudioRun) error, progress func(samples int64)) error {
	if !plan.HasAudio {
		return nil
	}
	if src.Demuxer == "" {
		src.Demuxer = plan.Demuxer
	}
	if progress == nil {
		progress = func(int64) {}
	}
	w := audioWatch{dir: dir, report: report, next: skip, skip: skip}
	for _, name := range []string{ffmpeg.RenditionFile(ffmpeg.AudioName), ffmpeg.PlaylistFile(ffmpeg.AudioName)} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("clearing the audio's directory: %w", err)
		}
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	atLeast := int64(math.Ceil(plan.DurationSeconds * video.SampleRate))
	type result struct {
		ffmpeg.Report
		err error
	}
	done := make(chan result, 1)
	moved := make(chan int64, 1)
	go func() {
		r, err := tool.Audio(ctx, src, dir, atLeast, func(p ffmpeg.Progress) {
			select {
			case moved <- p.OutTime.Microseconds() * video.SampleRate / 1e6:
			default: // the watcher is busy storing: it will hear the next one
			}
		})
		done <- result{r, err}
	}()
	// Whatever happens, the process has ended when this function returns.
	fail := func(err error) error {
		cancel(err)
		<-done
		return err
	}

	poll := time.NewTicker(audioPoll)
	defer poll.Stop()
	for {
		select {
		case samples := <-moved:
			progress(samples)
		case <-poll.C:
			if err := w.look(false); err != nil {
				return fail(err)
			}
		case r := <-done:
			if r.err != nil {
				return r.err
			}
			if err := w.look(true); err != nil {
				return err
			}
			if w.next == 0 {
				return errors.New("encoding audio: no segment came out")
			}
			return nil
		}
	}
}

// audioWatch follows the file that ffmpeg writes.
type audioWatch struct {
	dir    string
	report func(AudioRun) error
	next   int // segment to report next
	skip   int
	in     *initSegment
	last   time.Time // of the last report
}

// look reports the segments that are new, if it is time.
func (w *audioWatch) look(ended bool) error {
	if !ended && w.next > 0 && time.Since(w.last) < audioCadence {
		return nil
	}
	list, err := readListing(filepath.Join(w.dir, ffmpeg.PlaylistFile(ffmpeg.AudioName)))
	if err != nil {
		return err
	}
	if ended && !list.ended {
		return errors.New("encoding audio: the list of segments has no end")
	}
	if len(list.segments) <= w.next {
		if ended && len(list.segments) < w.skip {
			// A last segment that was dropped the first time is no difference.
			return fmt.Errorf("resuming audio: %d segments were committed, but the track has only %d", w.skip, len(list.segments))
		}
		return nil
	}
	path := filepath.Join(w.dir, ffmpeg.RenditionFile(ffmpeg.AudioName))
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening the audio file: %w", err)
	}
	defer func() { _ = f.Close() }()
	if w.in == nil {
		in, err := readInit(f, list.init)
		if err != nil {
			return err
		}
		w.in = &in
	}
	run, err := w.gather(f, list)
	if err != nil || len(run.Part.Segments) == 0 {
		return err
	}
	run.Path = path
	if err := w.report(run); err != nil {
		return err
	}
	w.next += len(run.Part.Segments)
	w.last = time.Now()
	return nil
}

// gather collects the segments that are new and wholly in the file.
func (w *audioWatch) gather(f *os.File, list listing) (AudioRun, error) {
	info, err := f.Stat()
	if err != nil {
		return AudioRun{}, fmt.Errorf("reading the audio file: %w", err)
	}
	run := AudioRun{
		Offset: list.segments[w.next].Offset,
		Part:   video.AudioPart{First: w.next, Codecs: w.in.codecs, Channels: ffmpeg.AudioChannels},
	}
	if w.next == 0 {
		run.Offset = list.init.Offset
		run.Part.Init = video.Range{Offset: 0, Length: list.init.Length}
	}
	for i := w.next; i < len(list.segments); i++ {
		where := list.segments[i]
		if where.Offset+where.Length > info.Size() {
			break
		}
		s, err := readSegment(f, where, *w.in)
		if err != nil {
			return run, err
		}
		samples := s.duration * video.SampleRate / w.in.timescale
		if samples < shortestAudio && i > 0 {
			break // only the last can be that short
		}
		run.Length = where.Offset + where.Length - run.Offset
		where.Offset -= run.Offset
		run.Part.Segments = append(run.Part.Segments, video.AudioSegment{Samples: samples, Range: where})
	}
	return run, nil
}
