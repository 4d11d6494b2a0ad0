package ffmpeg

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
)

// tails are how many seconds of the end of a source are read to find its last frame,
// try by try; a source of less than twice of it is read whole. Packets are read, not
// decoded. The first try is short, because of an upload that is going on the end has to
// be sent first; it does not find pictures that end much sooner than the rest.
var tails = []float64{0.5, 2, 12}

// probeEnd reads the first packets and those near the end. They tell what the header cannot:
// whether packets are encrypted, when the last picture ends, whether the file was cut short.
func (t *Tool) probeEnd(ctx context.Context, src Source, info Info) (Info, error) {
	promised := info.Video.End
	// Five per cent, or half a second, or two frames may be missing.
	frame := 1 / 25.0
	if f := info.Video.AvgFPS.Float(); f > 0 {
		frame = 1 / f
	}
	short := func(got, want float64) bool { return want-got > max(0.05*want, 0.5, 2*frame) }
	var seen packetEnds
	var err error
	for _, tail := range tails {
		seen = packetEnds{video: info.Video.index, audio: info.Audio.index, start: info.Start, frame: frame}
		seen.line = seen.read
		args := []string{
			"-show_entries", "packet=stream_index,pts_time,dts_time,duration_time,flags:packet_side_data=side_data_type",
			"-of", "compact=p=0",
		}
		whole := info.Duration <= 2*tail
		if begin := info.Start + min(info.Duration, promised) - tail; !whole {
			// Without an end, here beyond all films, ffprobe 7 reads nothing of an interval.
			args = append(args, "-read_intervals", "%+#8,"+strconv.FormatFloat(begin, 'f', 3, 64)+"%+1000000")
		}
		err = t.ffprobe(ctx, src, &seen, args...)
		damaged := errors.As(err, new(*RunError)) // perhaps not further back
		if whole || seen.encrypted || err != nil && !damaged || seen.lastVideo > 0 && !short(seen.lastAny, info.Duration) {
			break
		}
	}
	if seen.encrypted {
		return info, errEncrypted()
	}
	if err != nil && !errors.As(err, new(*RunError)) {
		return info, fmt.Errorf("reading the end of the source: %w", err)
	}
	if seen.lastVideo <= 0 {
		return info, cutShort(0, promised)
	}
	if short(seen.lastAny, info.Duration) {
		return info, cutShort(seen.lastAny, info.Duration)
	}
	if info.Demuxer == "mov" && short(seen.lastVideo, promised) {
		return info, cutShort(seen.lastVideo, promised) // this container's index is exact
	}
	info.Video.End, info.Audio.End = seen.lastVideo, seen.lastAudio
	return info, nil
}

func cutShort(got, want float64) error {
	return engine.Fail(video.CorruptMedia, "The file promises %.1f seconds but ends after %.1f.", want, got)
}

// packetEnds reads ffprobe's packet lines as they come and keeps three numbers:
// a file that cannot be sought may print millions of lines.
type packetEnds struct {
	lineWriter
	video, audio                  int     // indices of streams
	start, frame                  float64 // zero of the times; seconds of a frame without a duration
	lastVideo, lastAudio, lastAny float64
	encrypted                     bool
}

func (e *packetEnds) read(line string) {
	index, second, length, known := -1, 0.0, 0.0, false
	for field := range strings.SplitSeq(line, "|") {
		key, value, _ := strings.Cut(field, "=")
		if strings.HasPrefix(value, "Encryption") {
			e.encrypted = true
		}
		n, err := strconv.ParseFloat(value, 64)
		switch {
		case key == "flags" && strings.Contains(value, "D"):
			return // outside the edit list: decoded for others' sake, never shown
		case err != nil:
		case key == "stream_index":
			index = int(n)
		case key == "pts_time", key == "dts_time" && !known:
			second, known = n, true
		case key == "duration_time":
			length = n
		}
	}
	if index < 0 || !known {
		return
	}
	if length <= 0 && index == e.video {
		length = e.frame
	}
	end := second + length - e.start
	e.lastAny = max(e.lastAny, end)
	switch index {
	case e.video:
		e.lastVideo = max(e.lastVideo, end)
	case e.audio:
		e.lastAudio = max(e.lastAudio, end)
	}
}
