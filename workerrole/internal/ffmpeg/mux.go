package ffmpeg

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"strconv"

	ff "github.com/u2takey/ffmpeg-go"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
)

// RemuxedDemuxer is the container that Remux writes.
const RemuxedDemuxer = "matroska"

// Remux copies the source's pictures and the sound that is heard into a Matroska file at
// out, which has an index and one time line: it begins where the first of both does, and
// goes on where the times of the source jump. Probe the result as Source{URL: out}.
//
// A *engine.Failure says that the source is broken; any other error may pass. Repeating it
// overwrites the file.
func (t *Tool) Remux(ctx context.Context, src Source, info Info, out string) error {
	input := ff.Input(src.input(), with(t.guard(src), ff.KwArgs{"fflags": "+genpts"}))
	streams := []*ff.Stream{input.Get("V:0")}
	if info.HasAudio {
		streams = append(streams, input.Get("a:"+strconv.Itoa(info.Audio.Track)))
	}
	options := ff.KwArgs{
		"c:v": "copy", "c:a": "copy", "map_metadata": "-1", "map_chapters": "-1",
		"fflags": "+bitexact", "max_muxing_queue_size": "4096", "f": RemuxedDemuxer,
	}
	if info.decodesSound() {
		streams[1] = streams[1].Filter("aresample", ff.Args{strconv.Itoa(video.SampleRate)}).
			Filter("aformat", nil, ff.KwArgs{"sample_fmts": "flt", "channel_layouts": "stereo"})
		// Matroska counts milliseconds: blocks of 24 fall on them.
		options["c:a"], options["frame_size"] = "flac", strconv.Itoa(video.SampleRate*24/1000)
	}
	// Where recordings were joined, the last sound of one comes after the first picture of the
	// next. It is taken for a jump back, and not for a gap, when the first recording is
	// longer than this. ffmpeg's own 10 s would leave a gap as long as a recording.
	const longestGap = "3"
	_, err := t.ffmpeg(ctx, "remuxing the source", command{dir: filepath.Dir(out), source: src, limits: copying(src.CopyLimit(info))},
		ff.Output(streams, Source{URL: out}.input(), options), "-dts_delta_threshold", longestGap)
	if errors.As(err, new(*RunError)) {
		return engine.Fail(video.CorruptMedia, "Its pictures and sound cannot be brought onto one time line.")
	}
	return err
}

// decodesSound reports whether the copy has the sound without loss instead of as it is.
// In an MPEG-TS channels and rate may change on the way. Each packet says what they are,
// and in Matroska only the beginning of the file would.
func (i Info) decodesSound() bool { return i.HasAudio && i.Demuxer == "mpegts" }

// CopyLimit is how many bytes a copy of the source by Remux may have.
func (s Source) CopyLimit(info Info) int64 {
	bytes := copyLimit(s.size())
	if info.decodesSound() {
		seconds := cmp.Or(max(0, info.Duration), float64(s.size())/thinnest)
		bytes += int64(min(seconds, video.MaxDuration.Seconds()) * flacRate)
	}
	return bytes
}

const (
	thinnest = 4_000   // bytes of a second of film of which nothing is known
	flacRate = 192_000 // bytes of a second of 16-bit stereo, before it is compressed
)

// Mux joins a whole video track and a whole audio track (empty: none), both
// fragmented MP4 that we made, into an MP4 at out that starts playing before it
// is all there. Nothing is encoded. Repeating it overwrites the file.
func (t *Tool) Mux(ctx context.Context, videoFile, audioFile, out string) error {
	streams := []*ff.Stream{ff.Input(Source{URL: videoFile}.input(), trusted()).Get("v:0")}
	if audioFile != "" {
		streams = append(streams, ff.Input(Source{URL: audioFile}.input(), trusted()).Get("a:0"))
	}
	line := ff.Output(streams, Source{URL: out}.input(), ff.KwArgs{
		"c": "copy", "map_metadata": "-1", "fflags": "+bitexact", "movflags": "+faststart", "f": "mp4",
	})
	// Without copyts each file is moved to start at 0 on its own, and the sound,
	// which starts with priming samples before 0, would come 21 ms late.
	limit := copyLimit(Source{URL: videoFile}.size() + Source{URL: audioFile}.size())
	_, err := t.ffmpeg(ctx, "making the download", command{dir: filepath.Dir(out), reads: []string{videoFile, audioFile}, limits: copying(limit)}, line, "-copyts")
	return err
}
