package ffmpeg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

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
