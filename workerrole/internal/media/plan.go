package media

import (
	"errors"
	"math"
	"time"

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
// A *video.Failure says which limit the source exceeds.
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
		return video.Plan{}, video.Fail(video.TooManyFrames, "The video has %d frames; %d are allowed.", decoded, maxFrames)
	}
	if all := decoded * int64(info.Video.Width*info.Video.Height); all > maxDecoded {
		return video.Plan{}, video.Fail(video.TooManyPixels, "All pictures have %d million pixels together; %d are allowed.", all/1e6, int64(maxDecoded/1e6))
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
		return video.Fail(video.TooManyStreams, "The file has %d streams; %d are allowed.", info.Streams, maxStreams)
	case v.Width*v.Height > maxPixels:
		return video.Fail(video.TooManyPixels, "A picture has %d × %d pixels; %d in all are allowed.", v.Width, v.Height, maxPixels)
	case min(v.Width, v.Height) < minSide:
		return video.Fail(video.TooSmall, "A picture has %d × %d pixels; each side must have %d.", v.Width, v.Height, minSide)
	case seconds > video.MaxDuration.Seconds():
		return video.Fail(video.TooLong, "The video lasts %s; %s are allowed.", time.Duration(seconds)*time.Second, video.MaxDuration)
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
