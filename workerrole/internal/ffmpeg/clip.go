package ffmpeg

import (
	"context"
	"math"
	"path/filepath"
	"strconv"

	ff "github.com/u2takey/ffmpeg-go"

	"github.com/cutroom/cutroom/shared/video"
)

// ClipJob is one run of ffmpeg that cuts a short MP4 out of segments that we
// made. Those are on the grid already, so a frame is found by its number.
type ClipJob struct {
	Video string // local file: an init segment, then the segments that hold the frames
	Audio string // the same with the sound, from a little before; empty: a silent clip
	Out   string // local file that is written

	FPS     video.Rational
	First   int64 // frame of the whole video
	Frames  int64
	MaxRate int // bits per second, of the rendition that is cut
}

const (
	// clipDecoders decode, because a user waits. One thread encodes: with a bound on
	// the rate, two of x264's give other bytes on every try, for each looks at how far
	// the other one is.
	clipDecoders = "2"
	// clipCRF is better than the segments', so that encoding once more costs little.
	clipCRF = 20
)

// Clip encodes frames First to First+Frames, and the sound that belongs to them,
// into an MP4 that starts playing before it is all there. The first frame has
// time 0, whatever keyframe it follows. Repeating it overwrites the file.
//
// A nil error does not mean that all frames are there: verify (package media).
func (t *Tool) Clip(ctx context.Context, job ClipJob) error {
	// Times stay as the segments have them: each input on its own would be moved
	// to start at 0, and the sound would no longer fit the picture.
	_, err := t.ffmpeg(ctx, "encoding a clip", command{dir: filepath.Dir(job.Out), reads: []string{job.Video, job.Audio}, limits: encoding(maxPixels, 1)}, job.line(), "-copyts")
	return err
}

func (job ClipJob) line() *ff.Stream {
	in := with(trusted(), ff.KwArgs{"threads": clipDecoders})
	streams := []*ff.Stream{ff.Input(Source{URL: job.Video}.input(), in).Get("v:0").
		Filter("fps", ff.Args{job.FPS.String()}).
		Trim(ff.KwArgs{"start_pts": job.First, "end_pts": job.First + job.Frames}).
		Filter("setpts", ff.Args{"PTS-STARTPTS"}).
		Filter("format", ff.Args{"yuv420p"})}
	if job.Audio != "" {
		from, to := Samples(job.FPS, job.First), Samples(job.FPS, job.First+job.Frames)
		streams = append(streams, ff.Input(Source{URL: job.Audio}.input(), trusted()).Get("a:0").
			Filter("atrim", nil, ff.KwArgs{"start_pts": from, "end_pts": to}).
			Filter("asetpts", ff.Args{"PTS-STARTPTS"}).
			Filter("apad", nil, ff.KwArgs{"whole_len": to - from}))
	}
	return ff.Output(streams, Source{URL: job.Out}.input(), with(repeatable, ff.KwArgs{
		"map_chapters": "-1",
		"r":            job.FPS.String(), // ffmpeg 7 forgets it at setpts, and the last frame has no duration then
		"c:v":          "libx264", "preset": "veryfast", "profile:v": "high",
		"crf": strconv.Itoa(clipCRF), "maxrate": strconv.Itoa(job.MaxRate), "bufsize": strconv.Itoa(2 * job.MaxRate),
		"c:a": "aac", "b:a": strconv.Itoa(AudioBitRate), "ac": strconv.Itoa(AudioChannels),
		"movflags": "+faststart", "f": "mp4",
	}))
}

// Samples is the number of the sound's sample that a frame of the grid starts with.
func Samples(fps video.Rational, frame int64) int64 {
	return int64(math.Round(fps.Seconds(frame) * video.SampleRate))
}
