package ffmpeg

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
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

// SoundFile is the file that Sound writes in SoundJob.Dir: an ordinary MP4 whose
// packets are to be taken out.
const SoundFile = "sound.mp4"

// SoundJob is one run of ffmpeg over a range of the audio stream that is heard. Times
// are samples at video.SampleRate from the start of the track.
type SoundJob struct {
	Source Source
	Dir    string // where SoundFile goes; must exist
	From   int64  // where encoding starts
	To     int64  // where it ends, exclusive, when the track is that long
	Pad    int64  // a track that ends before this is filled with silence up to it

	// Seek is the second where reading starts; negative means at the start of
	// the source. It must be well before From: see FirstSamples.
	Seek float64
	// Grid is where the frames of the source lie; zero to take the container's
	// word for it.
	Grid SoundGrid
}

// Second is the second of the source from which on decoded sound is needed. A
// resampler that starts at a whole second is in step with one that has run from
// the start, whatever the two rates are; and it needs a little before From.
func (j SoundJob) Second() int64 { return max(0, j.From-video.AACPacket) / video.SampleRate }

// Sound encodes one range, and returns where the sound that was decoded for it ends. The
// same job gives the same bytes, and packet n is made of the samples from From + (n-1) ×
// video.AACPacket on: the first one holds the priming of the encoder.
//
// Sample n of the track is always at second n ÷ rate: silence fills a late start and gaps.
// One program decodes, and another encodes what this one has put in its place. A program
// that did both would begin its filters again, and its counting, where channels or rate of
// the source change.
func (t *Tool) Sound(ctx context.Context, job SoundJob) (end int64, err error) {
	if err := t.decodeSound(ctx, job); err != nil {
		return 0, fmt.Errorf("decoding sound: %w", err)
	}
	if end, err = job.place(); err != nil {
		return 0, fmt.Errorf("putting sound in its place: %w", err)
	}
	if err := os.Remove(filepath.Join(job.Dir, decodedFile)); err != nil { // it is large
		return 0, fmt.Errorf("removing decoded sound: %w", err)
	}
	if err := t.encodeSound(ctx, job); err != nil {
		return 0, fmt.Errorf("encoding sound: %w", err)
	}
	return end, nil
}

// Files beside SoundFile.
const (
	decodedFile = "decoded.pcm" // what came out of the decoder, in stereo, as 32-bit numbers
	framesFile  = "frames.txt"  // where it belongs
	placedFile  = "placed.pcm"  // the range, without gaps
)

// longestRunUp is how many samples before a range are written down with it. Where more
// must be decoded, because samples have to be counted from the start, a filter counts them
// and drops them: those of hours would fill the disk.
const longestRunUp = 10 * video.SampleRate

func (t *Tool) decodeSound(ctx context.Context, job SoundJob) error {
	second := job.Second()
	if job.Seek <= 0 {
		second = 0 // all in one go, as the first range is: by counting
	}
	sound := t.soundInput(job.Source, job.Seek)
	if shift := job.Grid.expression(); shift != "" {
		sound = sound.Filter("asetpts", ff.Args{shift})
	}
	rate, counting := ff.Args{strconv.Itoa(video.SampleRate)}, ff.KwArgs{}
	fromStart := job.Seek <= 0 && job.From > longestRunUp
	if fromStart {
		counting = ff.KwArgs{"async": 1, "min_comp": "0.000001", "first_pts": 0}
	}
	sound = sound.
		Filter("atrim", nil, ff.KwArgs{"start": second, "end": float64(job.To)/video.SampleRate + 1}).
		Filter("aresample", rate, counting)
	if fromStart {
		sound = sound.Filter("atrim", nil, ff.KwArgs{"start_pts": job.From})
	}
	sound = sound.
		Filter("aformat", nil, ff.KwArgs{"sample_fmts": "flt", "channel_layouts": "stereo"})
	out := sound.Output("[f=f32le]"+decodedFile+"|[f=framecrc]"+framesFile, ff.KwArgs{
		"vn": "", "sn": "", "dn": "", "map_metadata": "-1", "map_chapters": "-1", "c:a": "pcm_f32le", "f": "tee",
	})
	return t.runSound(ctx, job, slices.Concat(startAtZero, out.GetArgs()))
}

func (t *Tool) encodeSound(ctx context.Context, job SoundJob) error {
	in := ff.KwArgs{"protocol_whitelist": "file", "format_whitelist": "f32le", "f": "f32le", "ar": strconv.Itoa(video.SampleRate), "ac": strconv.Itoa(AudioChannels)}
	out := ff.Input(Source{URL: filepath.Join(job.Dir, placedFile)}.input(), in).Output(SoundFile, ff.KwArgs{
		"map_metadata": "-1", "fflags": "+bitexact", "flags": "+bitexact", "threads": "1",
		"c:a": "aac", "b:a": strconv.Itoa(AudioBitRate), "f": "mp4",
	})
	job.Source = Source{}
	return t.runSound(ctx, job, out.GetArgs())
}

func (t *Tool) runSound(ctx context.Context, job SoundJob, args []string) error {
	_, err := t.run(ctx, command{path: t.FFmpeg, args: slices.Concat(t.globals(), args), dir: job.Dir, source: job.Source, limits: sounding})
	return err
}

// soundInput opens the sound of a source that is heard, as one stream whose channels have
// names.
func (t *Tool) soundInput(src Source, seek float64) *ff.Stream {
	in := t.guard(src)
	in["threads"] = "1"
	in["vn"] = ""
	in["sn"] = ""
	in["dn"] = ""
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

// SoundFrames are the first decoded audio frames after a seek.
type SoundFrames struct {
	Rate  int64   // samples per second of the source
	Tick  int64   // how many samples the container's time stamps are coarse, rounded up; 0 when they are exact
	At    []int64 // first sample of each frame
	Sizes []int64 // samples
}

// Seconds is the time of the first frame, or false when nothing was decoded.
func (f SoundFrames) Seconds() (at float64, found bool) {
	if len(f.At) == 0 || f.Rate == 0 {
		return 0, false
	}
	return float64(f.At[0]) / float64(f.Rate), true
}

// FirstSamples decodes a few audio frames from the second seek on, or with a
// negative one from the start of the source, and tells where they lie. dir must
// exist. Nothing to decode is no error.
func (t *Tool) FirstSamples(ctx context.Context, src Source, dir string, seek float64) (SoundFrames, error) {
	const decoded, copied = "frames.txt", "packets.txt"
	in := t.soundInput(src, seek)
	list := func(name, codec string) *ff.Stream {
		return in.Output(name, ff.KwArgs{
			"vn": "", "sn": "", "dn": "", "c:a": codec, "frames:a": "5", "avoid_negative_ts": "disabled", "f": "framecrc",
		})
	}
	args := slices.Concat(t.globals(), startAtZero, ff.MergeOutputs(list(decoded, "pcm_s16le"), list(copied, "copy")).GetArgs())
	_, err := t.run(ctx, command{path: t.FFmpeg, args: args, dir: dir, source: src, limits: sounding})
	if err != nil {
		return SoundFrames{}, fmt.Errorf("looking for the first samples: %w", err)
	}
	frames, err := readFrames(filepath.Join(dir, decoded))
	if err != nil {
		return SoundFrames{}, err
	}
	packets, err := readFrames(filepath.Join(dir, copied))
	if err != nil {
		return SoundFrames{}, err
	}
	result := SoundFrames{Rate: frames.base.Den, At: frames.at, Sizes: frames.length}
	if base := packets.base; base.Den > 0 && base.Den%max(1, base.Num*result.Rate) != 0 {
		result.Tick = (base.Num*result.Rate + base.Den - 1) / base.Den
	}
	return result, nil
}

// frameList is what the muxer framecrc says about its frames.
type frameList struct {
	base       video.Rational // seconds of a tick
	at, length []int64        // ticks
	bytes      []int64
}

func readFrames(path string) (frameList, error) {
	var list frameList
	text, err := os.ReadFile(path)
	if err != nil {
		return list, fmt.Errorf("reading the list of frames: %w", err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		if base, ok := strings.CutPrefix(line, "#tb 0: "); ok {
			if list.base, err = video.ParseRational(base); err != nil {
				return list, fmt.Errorf("reading the list of frames: %w", err)
			}
		}
		f := strings.Split(line, ",") // stream, dts, pts, duration, size, checksum
		if strings.HasPrefix(line, "#") || len(f) < 5 {
			continue
		}
		at, err1 := strconv.ParseInt(strings.TrimSpace(f[2]), 10, 64)
		n, err2 := strconv.ParseInt(strings.TrimSpace(f[3]), 10, 64)
		bytes, err3 := strconv.ParseInt(strings.TrimSpace(f[4]), 10, 64)
		if err := errors.Join(err1, err2, err3); err != nil {
			return list, fmt.Errorf("reading the list of frames: %w", err)
		}
		list.at, list.length, list.bytes = append(list.at, at), append(list.length, n), append(list.bytes, bytes)
	}
	return list, nil
}

// SoundGrid says where the frames of an audio stream lie when they follow one
// another without a gap: at Start + n × Size samples of the source's own rate.
//
// Some containers round: Matroska to milliseconds, MPEG-TS to 1/90,000 s. One run
// of ffmpeg goes by the first time stamp and counts samples from there; a run that
// starts elsewhere goes by another, rounded otherwise, and would put the same
// sample up to a millisecond beside. On the grid both agree.
type SoundGrid struct {
	Start, Size int64
	Reach       int64 // how far beside the grid a frame may be and still belong on it
}

// Grid returns the grid of a stream whose time stamps are coarse, given its first
// frames, or false when they are of different lengths, as those of Vorbis are.
// Then a sample's time is known only by counting from the start.
func Grid(first SoundFrames) (SoundGrid, bool) {
	if len(first.At) < 3 {
		return SoundGrid{}, true // there is nothing to place
	}
	// The first frame may be short: decoders drop what encoders put in front.
	size := first.Sizes[1]
	for _, n := range first.Sizes[1:] {
		if n != size {
			return SoundGrid{}, false
		}
	}
	// Both this frame and that of another run may be rounded by half a tick, and
	// some muxers round twice.
	g := SoundGrid{Start: first.At[0] + first.Sizes[0], Size: size, Reach: first.Tick*3/2 + 1}
	return g, size >= 4*g.Reach // else the nearest place might be the wrong one
}

// expression moves frames onto the grid, in the words of asetpts.
func (g SoundGrid) expression() string {
	if g.Size == 0 {
		return ""
	}
	return fmt.Sprintf("st(0,PTS-(%d));st(1,round(ld(0)/%d)*%d);if(lte(abs(ld(0)-ld(1)),%d),ld(1)+(%d),PTS)",
		g.Start, g.Size, g.Size, g.Reach, g.Start)
}
