package media

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"time"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
)

// What a source may ask of us. Beyond one of these it fails for good, with the code here.
const (
	maxPixels  = 9_437_184         // in a picture, 4096 × 2304: too_many_pixels
	maxDecoded = 3_600_000_000_000 // pixels of all frames together, 4 hours of 3840 × 2160 at 30 frames a second: too_many_pixels
	minSide    = 16                // pixels of the shorter side: too_small
	maxFrames  = 1_000_000         // of the source, and on the grid: too_many_frames
	maxStreams = 16                // of pictures and sound: too_many_streams
)

const (
	segmentSeconds = 4
	// longChunk is the length of a chunk after the first four, in segments:
	// seams cost about 0.7 CPU seconds each, 3 % at this length.
	longChunk = 8
	// chunkCost is the CPU time that a chunk may take by our estimate. The
	// truth is up to half more for noisy pictures, still under a minute.
	chunkCost = 40 // seconds of one core
	// pixelRate is how many pixels of output one core encodes in a second.
	pixelRate = 60e6

	// maxChunks keeps the plan small enough for one row of a table. Only a heavy
	// video of more than an hour meets it, with longer chunks than it should have.
	maxChunks = 1000

	maxTiles = 100
	tileSide = 160 // pixels of a tile's longer side
)

// Plan cuts a probed source into chunks and chooses what is made of it. It is pure. The
// caller fills in what it does not know: the generation, a copy, the promises.
//
// A *engine.Failure says which limit the source exceeds.
func Plan(info ffmpeg.Info) (video.Plan, error) {
	if err := check(info); err != nil {
		return video.Plan{}, err
	}
	if info.NeedsRemux {
		return video.Plan{}, errors.New("the source must be remuxed before it can be planned")
	}
	pictures := info.Video.End
	p := video.Plan{
		Demuxer:    info.Demuxer,
		FPS:        grid(info.Video),
		Interlaced: info.Video.Interlaced,
		HasAudio:   info.HasAudio,
		Heard:      info.Audio.Heard,
		HDR:        info.Video.HDR,
		FullRange:  info.Video.FullRange,
		Primaries:  info.Video.Primaries,
		ToneMap:    (info.Video.HDR != "" || info.Video.Wide) && info.CanToneMap,
	}
	p.Frames = max(1, p.FPS.Frames(pictures))
	if info.HasAudio && info.Audio.End > pictures+overhang { // the last picture stays
		p.Pictures, p.Frames = p.Frames, p.FPS.Frames(info.Audio.End)
	}
	decoded := max(p.Frames, int64(info.Video.AvgFPS.Float()*pictures)) // of a fast camera's, some are left out
	if decoded > maxFrames {
		return video.Plan{}, engine.Fail(video.TooManyFrames, "The video has %d frames; %d are allowed.", decoded, maxFrames)
	}
	if all := decoded * int64(info.Video.Width*info.Video.Height); all > maxDecoded {
		return video.Plan{}, engine.Fail(video.TooManyPixels, "All pictures have %d million pixels together; %d are allowed.", all/1e6, int64(maxDecoded/1e6))
	}
	p.DurationSeconds = p.FPS.Seconds(p.Frames)
	p.Width, p.Height = displayed(info.Video)
	p.Rotated = info.Video.Rotation != 0
	p.Renditions = ladder(p.Width, p.Height)
	p.SegmentFrames = max(1, p.FPS.Frames(segmentSeconds))
	p.Chunks = cut(p.Frames, p.SegmentFrames, longest(p, info.Video))
	if p.HasAudio {
		p.SoundSeconds = info.Audio.End
		p.Sound = portions(max(p.DurationSeconds, min(info.Duration, video.MaxDuration.Seconds())))
	}
	// Whole seconds between tiles, unless the video is so long that they grow.
	p.TileEvery = max(p.FPS.Frames(1), (p.Frames+maxTiles-1)/maxTiles, 1)
	p.TileWidth, p.TileHeight = fitWithin(p.Width, p.Height, tileSide)
	p.PosterFrame = p.Frames / 10
	return p, nil
}

// overhang is how many seconds sound usually ends after the pictures: a packet or two.
const overhang = 0.1

func check(info ffmpeg.Info) error {
	v := info.Video
	seconds := max(info.Duration, v.End)
	switch {
	case info.Streams > maxStreams:
		return engine.Fail(video.TooManyStreams, "The file has %d streams; %d are allowed.", info.Streams, maxStreams)
	case v.Width*v.Height > maxPixels:
		return engine.Fail(video.TooManyPixels, "A picture has %d × %d pixels; %d in all are allowed.", v.Width, v.Height, maxPixels)
	case min(v.Width, v.Height) < minSide:
		return engine.Fail(video.TooSmall, "A picture has %d × %d pixels; each side must have %d.", v.Width, v.Height, minSide)
	case seconds > video.MaxDuration.Seconds():
		return engine.Fail(video.TooLong, "The video lasts %s; %s are allowed.", time.Duration(seconds)*time.Second, video.MaxDuration)
	}
	return nil
}

// displayed is the size of the picture as it is seen: rotated, and with square pixels.
func displayed(v ffmpeg.VideoStream) (width, height int) {
	width, height = v.Width, v.Height
	if sar := v.SAR.Float(); sar > 1 {
		width = int(math.Round(float64(width) * sar))
	} else if sar > 0 {
		height = int(math.Round(float64(height) / sar))
	}
	if width*height > maxPixels { // absurd shapes exist in broken files only
		width, height = v.Width, v.Height
	}
	if v.Rotation%180 != 0 {
		width, height = height, width
	}
	return width, height
}

// cut returns chunks of half a segment and of 1, 2 and 4 segments, so that
// playback starts soon, then chunks of long segments. When less than two long
// ones are left, each takes two thirds of the rest: with chunks as long as the
// others at the end, workers would wait for the last of them. A short rest joins
// the chunk before it: a chunk of its own would cost a seam, and might turn out
// to be empty.
func cut(frames, segment, long int64) []video.Chunk {
	var chunks []video.Chunk
	size := (segment + 1) / 2 // of the first chunk, in frames
	for from, n := int64(0), int64(1); from < frames; {
		if len(chunks) > 0 {
			segments := n
			if rest := (frames - from + segment - 1) / segment; rest > 2 && rest < 2*long {
				segments = min(segments, (2*rest+1)/3)
			}
			size = segments * segment
			n = min(2*n, long)
		}
		to := from + size
		if to+segment/2 >= frames {
			to = frames
		}
		chunks = append(chunks, video.Chunk{From: from, To: to})
		from = to
	}
	return chunks
}

// longest is the length of the long chunks in segments: less when the pictures
// are so many or so large that a chunk would take a core too long (Q16c).
func longest(p video.Plan, v ffmpeg.VideoStream) int64 {
	decode := 0.3 // of the cost of encoding the same pixels
	switch v.Codec {
	case "hevc", "vp9", "av1":
		decode = 0.6
	}
	pixels := decode * float64(v.Width*v.Height)
	for _, r := range p.Renditions {
		pixels += float64(r.Width * r.Height)
	}
	perSegment := pixels * float64(p.SegmentFrames) / pixelRate // seconds
	if p.ToneMap {
		perSegment *= 3
	}
	n := int64(max(1, min(longChunk, chunkCost/perSegment)))
	segments := p.Frames/p.SegmentFrames + 1
	return max(n, (segments+maxChunks-6)/(maxChunks-5)) // the ramp has five more
}

var standard = []video.Rational{
	{Num: 24000, Den: 1001}, {Num: 24, Den: 1}, {Num: 25, Den: 1}, {Num: 30000, Den: 1001}, {Num: 30, Den: 1},
	{Num: 48, Den: 1}, {Num: 50, Den: 1}, {Num: 60000, Den: 1001}, {Num: 60, Den: 1},
}

const (
	maxGrid = 60 // frames per second
	minGrid = 5  // so that a segment has frames, and a seek is not coarse
)

// grid chooses the constant frame rate of the output. A source of constant rate
// keeps it exactly; a faster one is halved until it fits; of an interlaced one each
// field is a picture; a source of variable rate gets one that holds its busiest parts.
func grid(v ffmpeg.VideoStream) video.Rational {
	rate, avg := v.FPS, v.AvgFPS
	switch {
	case rate.Float() == 0 && avg.Float() == 0:
		rate = video.Rational{Num: 25, Den: 1}
	case rate.Float() == 0:
		rate = tidy(avg)
	case avg.Float() == 0 || nearlyEqual(rate.Float(), avg.Float(), 0.01):
		rate = tidy(rate)
	case v.Interlaced && nearlyEqual(rate.Float(), 2*avg.Float(), 0.01):
		rate = tidy(avg) // rate counts fields
	default:
		rate = variable(rate, avg.Float())
	}
	if v.Interlaced && rate.Float() <= maxGrid/2+0.01 {
		rate = reduce(video.Rational{Num: 2 * rate.Num, Den: rate.Den}) // each field is a picture of its own
	}
	for rate.Float() > maxGrid+0.01 {
		rate = reduce(video.Rational{Num: rate.Num, Den: 2 * rate.Den})
	}
	if f := rate.Float(); f < minGrid {
		rate = reduce(video.Rational{Num: rate.Num * int64(math.Ceil(minGrid/f)), Den: rate.Den})
	}
	return rate
}

// variable chooses the rate for a source whose frames come unevenly. peak is
// the rate that would hold every timestamp; it is nonsense (a time base) when
// it is high.
func variable(peak video.Rational, avg float64) video.Rational {
	if f := peak.Float(); f <= maxGrid && (f <= 2*avg || f <= 30) {
		return tidy(peak)
	}
	for _, r := range standard {
		if r.Den == 1 && r.Num != 48 && r.Float() >= 0.99*avg {
			return r
		}
	}
	return video.Rational{Num: maxGrid, Den: 1}
}

// tidy returns the standard rate that r nearly is, or r with a denominator that
// a time base can hold.
func tidy(r video.Rational) video.Rational {
	for _, s := range standard {
		if nearlyEqual(r.Float(), s.Float(), 0.0003) { // 24 and 23.976 differ by 0.001
			return s
		}
	}
	r = reduce(r)
	if r.Num > 240_000 || r.Den > 10_000 {
		r = reduce(video.Rational{Num: max(1, int64(math.Round(r.Float()*1000))), Den: 1000})
	}
	return r
}

func nearlyEqual(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance*b }

func reduce(r video.Rational) video.Rational {
	lowest := big.NewRat(r.Num, r.Den)
	return video.Rational{Num: lowest.Num().Int64(), Den: lowest.Denom().Int64()}
}

// rungs is the ladder, by the shorter side of the picture in pixels.
var rungs = []struct {
	side int
	rate int // bits per second at most
}{
	{1080, 5_000_000}, {720, 3_000_000}, {480, 1_400_000}, {240, 450_000},
}

// ladder returns the renditions of a picture, tallest first. Nothing is ever
// enlarged: a source that is clearly larger than the highest rung that fits, or
// smaller than the lowest, gets a rendition of its own size.
func ladder(width, height int) []video.Rendition {
	side := min(width, height)
	var list []video.Rendition
	for _, r := range rungs {
		if r.side <= side {
			w, h := scaled(width, height, r.side)
			list = append(list, video.Rendition{Name: fmt.Sprintf("%dp", r.side), Width: w, Height: h, MaxRate: r.rate})
		}
	}
	if len(list) == 0 || 4*side >= 5*min(list[0].Width, list[0].Height) {
		w, h := even(width), even(height)
		top := video.Rendition{Name: fmt.Sprintf("%dp", min(w, h)), Width: w, Height: h, MaxRate: rateFor(w, h)}
		list = append([]video.Rendition{top}, list...)
	}
	return list
}

// scaled keeps the shape of the picture and makes its shorter side side pixels.
func scaled(width, height, side int) (w, h int) {
	long := func(long, short int) int {
		return min(2*int(math.Round(float64(long)*float64(side)/float64(short)/2)), even(long))
	}
	if width >= height {
		return max(side, long(width, height)), side
	}
	return side, max(side, long(height, width))
}

// fitWithin keeps the shape and makes the longer side at most side pixels.
func fitWithin(width, height, side int) (w, h int) {
	f := min(1, float64(side)/float64(max(width, height)))
	dim := func(n int) int { return max(2, 2*int(math.Round(float64(n)*f/2))) }
	return dim(width), dim(height)
}

func even(n int) int { return max(2, n&^1) }

// rateFor continues the ladder's rates to any size: bits grow more slowly than pixels.
func rateFor(width, height int) int {
	rate := 5_000_000 * math.Pow(float64(width*height)/(1920*1080), 0.75)
	return int(min(20_000_000, max(150_000, math.Round(rate/50_000)*50_000)))
}
