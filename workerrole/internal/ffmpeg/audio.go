package ffmpeg

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	ff "github.com/u2takey/ffmpeg-go"

	"github.com/cutroom/cutroom/shared/video"
)

// AudioName names the files that Audio writes: RenditionFile(AudioName) and
// PlaylistFile(AudioName), both of which grow.
const AudioName = "audio"

// Facts about every audio rendition.
const (
	AudioChannels = 2
	AudioBitRate  = 128_000 // bits per second
	audioSegment  = 4       // seconds
)

// Audio encodes the first audio stream from start to end as one track in dir.
// The same source gives the same bytes. Each segment is complete in the file
// before the playlist names it.
//
// The track lasts at least the given number of samples at video.SampleRate;
// silence is added.
//
// Audio is not cut into chunks: an encoder that starts anew at every seam
// clicks, and drifts by its priming samples.
func (t *Tool) Audio(ctx context.Context, src Source, dir string, atLeast int64, progress func(Progress)) (Report, error) {
	in := t.guard(src)
	in["threads"] = "1"
	in["vn"] = ""
	in["sn"] = ""
	in["dn"] = ""
	out := ff.Input(src.input(), in).Get("a:0").Output(PlaylistFile(AudioName), ff.KwArgs{
		"vn": "", "sn": "", "dn": "", "map_metadata": "-1", "map_chapters": "-1",
		"fflags": "+bitexact", "flags": "+bitexact", "threads": "1",
		// Silence fills a late start and gaps, so that sample n is always second n ÷ rate.
		"af": "aresample=" + strconv.Itoa(video.SampleRate) + ":async=1:first_pts=0,apad=whole_len=" + strconv.FormatInt(atLeast, 10),
		"ac": strconv.Itoa(AudioChannels), "c:a": "aac", "b:a": strconv.Itoa(AudioBitRate),
		"avoid_negative_ts": "disabled",
		"f":                 "hls", "hls_time": strconv.Itoa(audioSegment),
		"hls_list_size": "0", "hls_playlist_type": "event",
		// No frag_discont here: with AAC's priming the first decode time would be negative.
		"hls_segment_type":     "fmp4",
		"hls_flags":            "independent_segments+single_file+temp_file",
		"hls_segment_filename": RenditionFile(AudioName),
	})
	args := slices.Concat(t.globals(), fromZero, out.GetArgs())
	report, err := run(ctx, command{path: t.FFmpeg, args: args, dir: dir, source: src, progress: quiet(progress), nice: audioNice, limits: sounding})
	if err != nil {
		return report, fmt.Errorf("encoding audio: %w", err)
	}
	return report, nil
}
