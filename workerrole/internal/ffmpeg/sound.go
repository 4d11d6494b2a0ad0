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
	"strconv"
	"strings"

	ff "github.com/u2takey/ffmpeg-go"

	"github.com/cutroom/cutroom/shared/video"
)

// Facts about every audio rendition.
const (
	AudioChannels = 2
	AudioBitRate  = 128_000 // bits per second
)

// SoundFile is what Sound writes in SoundJob.Dir: a fragmented MP4, for its packets.
const SoundFile = "sound.mp4"

// SoundJob is one run of ffmpeg over a range of the audio stream that is heard. Times
// are samples at video.SampleRate from the start of the track.
type SoundJob struct {
	Source Source
	Dir    string // where SoundFile goes; must exist
	From   int64  // where encoding starts
	To     int64  // where it ends, exclusive, when the track is that long
	Pad    int64  // a track that ends before this is filled with silence up to it
}

// runUp is how many seconds are decoded in vain: the first frames after a seek are wrong.
const runUp = 0.5

// second is the second of the source from which on decoded sound is needed. A
// resampler that starts at a whole second is in step with one that has run from
// the start, whatever the two rates are; and it needs a little before From.
func (j SoundJob) second() int64 { return max(0, j.From-video.AACPacket) / video.SampleRate }

// Sound encodes one range, and returns where the sound that was decoded for it ends. The
// same job gives the same bytes, and packet n is made of the samples from From + (n-1) ×
// video.AACPacket on: the first one holds the priming of the encoder.
//
// Sample n of the track is always at second n ÷ rate: silence fills a late start and gaps.
// One program decodes, and another encodes what this one has put in its place. A program
// that did both would begin its filters again, and its counting, where channels or rate of
// the source change.
func (t *Tool) Sound(ctx context.Context, job SoundJob) (end int64, err error) {
	at := float64(job.second()) - runUp
	grid, canSeek := soundGrid{}, true // an MP4 counts samples
	if at > 0 && job.Source.Demuxer == RemuxedDemuxer {
		if grid, canSeek, err = t.soundGrid(ctx, job); err != nil {
			return 0, err
		}
	}
	margin := 1.0
	if !canSeek {
		margin = at // from the start of the source
	}
	var list frameList
	for ; ; margin *= 4 { // damaged before the range, a late start, a long gap: from further back
		list, err = t.decodeSound(ctx, job, at-margin, grid)
		missing := errors.As(err, new(*RunError)) || err == nil && !list.beginsBy(job.second())
		if !missing || margin >= at {
			break
		}
	}
	if err != nil {
		return 0, err
	}
	if end, err = job.place(list); err != nil {
		return 0, fmt.Errorf("putting sound in its place: %w", err)
	}
	if err := os.Remove(filepath.Join(job.Dir, decodedFile)); err != nil { // it is large
		return 0, fmt.Errorf("removing decoded sound: %w", err)
	}
	return end, t.encodeSound(ctx, job)
}

// Files beside SoundFile.
const (
	decodedFile = "decoded.pcm" // what came out of the decoder, in stereo, as 32-bit numbers
	framesFile  = "frames.txt"  // where it belongs
	placedFile  = "placed.pcm"  // the range, without gaps
)

// longestRunUp is how many samples before a range are written down with it. A filter counts
// and drops more, where they are counted from the start: hours of them would fill the disk.
const longestRunUp = 10 * video.SampleRate

// decodeSound decodes a range, from a second of the source on; 0 or less means its start.
func (t *Tool) decodeSound(ctx context.Context, job SoundJob, from float64, grid soundGrid) (frameList, error) {
	second := job.second()
	if from <= 0 {
		second = 0 // all in one go, as the first range is: by counting
	}
	sound := t.soundInput(job.Source, from)
	if shift := grid.expression(); shift != "" {
		sound = sound.Filter("asetpts", ff.Args{shift})
	}
	rate, counting := ff.Args{strconv.Itoa(video.SampleRate)}, ff.KwArgs{}
	fromStart := from <= 0 && job.From > longestRunUp
	if fromStart {
		counting = ff.KwArgs{"async": 1, "min_comp": "0.000001", "first_pts": 0}
	}
	sound = sound.
		Filter("atrim", nil, ff.KwArgs{"start": second, "end": float64(job.To)/video.SampleRate + 1}).
		Filter("aresample", rate, counting)
	if fromStart {
		sound = sound.Filter("atrim", nil, ff.KwArgs{"start_pts": job.From})
	}
	out := sound.
		Filter("aformat", nil, ff.KwArgs{"sample_fmts": "flt", "channel_layouts": "stereo"}).
		Output("[f=f32le]"+decodedFile+"|[f=framecrc]"+framesFile, ff.KwArgs{"map_metadata": "-1", "map_chapters": "-1", "c:a": "pcm_f32le", "f": "tee"})
	if _, err := t.ffmpeg(ctx, "decoding sound", command{dir: job.Dir, source: job.Source, limits: sounding}, out, startAtZero...); err != nil {
		return frameList{}, err
	}
	return readFrames(filepath.Join(job.Dir, framesFile))
}

func (t *Tool) encodeSound(ctx context.Context, job SoundJob) error {
	in := ff.KwArgs{"protocol_whitelist": "file", "format_whitelist": "f32le", "f": "f32le", "ar": strconv.Itoa(video.SampleRate), "ac": strconv.Itoa(AudioChannels)}
	out := ff.Input(Source{URL: filepath.Join(job.Dir, placedFile)}.input(), in).
		Output(SoundFile, with(repeatable, ff.KwArgs{"c:a": "aac", "b:a": strconv.Itoa(AudioBitRate), "f": "mp4", "movflags": "+empty_moov"}))
	_, err := t.ffmpeg(ctx, "encoding sound", command{dir: job.Dir, limits: sounding}, out)
	return err
}

// soundInput opens the sound that is heard, as one stream whose channels have names.
func (t *Tool) soundInput(src Source, seek float64) *ff.Stream {
	in := with(t.guard(src), ff.KwArgs{"threads": "1", "vn": "", "sn": "", "dn": ""})
	if seek > 0 {
		in["noaccurate_seek"] = "" // samples are picked by their times, in a filter
		in["ss"] = strconv.FormatFloat(seek, 'f', 6, 64)
	}
	input := ff.Input(src.input(), in)
	track := func(n int) *ff.Stream { return input.Get("a:" + strconv.Itoa(n)) }
	switch heard := src.Heard; {
	case heard.Pair:
		return ff.Filter([]*ff.Stream{track(heard.Track), track(heard.Track + 1)}, "join", nil, ff.KwArgs{"inputs": 2, "channel_layout": "stereo"})
	case heard.Discrete:
		return track(heard.Track).Filter("pan", ff.Args{"stereo|c0=c0|c1=c1"})
	default:
		return track(heard.Track)
	}
}

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
