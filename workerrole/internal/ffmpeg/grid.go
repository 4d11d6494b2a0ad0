package ffmpeg

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	ff "github.com/u2takey/ffmpeg-go"
)

// soundGrid says where the frames of an audio stream lie when they follow one
// another without a gap: at start + n × size samples of the source's own rate.
//
// Matroska rounds to milliseconds. One run of ffmpeg goes by the first time stamp and
// counts samples from there; a run that starts elsewhere goes by another, rounded
// otherwise, and would put the same sample up to a millisecond beside. On the grid both
// agree.
type soundGrid struct {
	start, size int64
	reach       int64 // how far beside the grid a frame may be and still belong on it
}

// soundGrid looks at the first frames of the source: for their grid, in a Matroska file,
// and for whether reading may start at a later second. It must not when sound begins after
// it, or where frames are of different lengths, as those of Vorbis are: then a sample's time
// is known only by counting from the start.
func (t *Tool) soundGrid(ctx context.Context, job SoundJob, second float64) (grid soundGrid, canSeek bool, _ error) {
	if second <= 0 {
		return grid, false, nil
	}
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
		return grid, len(first.frames) > 0, err
	}
	rate := first.base.Den
	canSeek = float64(first.frames[0].at)/float64(rate) < second
	if job.Source.Demuxer != RemuxedDemuxer {
		return grid, canSeek, nil // an MP4 counts samples
	}
	// The first frame may be short: decoders drop what encoders put in front.
	begin, size := first.frames[0], first.frames[1].length
	if slices.ContainsFunc(first.frames[1:], func(f frame) bool { return f.length != size }) {
		return grid, false, nil
	}
	// Both this frame and that of another run may be rounded by half a millisecond, and
	// some muxers round twice.
	reach := (rate+999)/1000*3/2 + 1
	if size < 4*reach { // the nearest place might be the wrong one
		return grid, false, nil
	}
	return soundGrid{start: begin.at + begin.length, size: size, reach: reach}, canSeek, nil
}

// expression moves frames onto the grid, in the words of asetpts.
func (g soundGrid) expression() string {
	if g.size == 0 {
		return ""
	}
	return fmt.Sprintf("st(0,PTS-(%d));st(1,round(ld(0)/%d)*%d);if(lte(abs(ld(0)-ld(1)),%d),ld(1)+(%d),PTS)",
		g.start, g.size, g.size, g.reach, g.start)
}
