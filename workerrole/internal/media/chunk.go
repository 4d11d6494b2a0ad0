package media

import (
	"context"
	"errors"
	"fmt"
	"image/jpeg"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
)

// Encoded is a verified chunk on the local disk.
type Encoded struct {
	// Output is complete but for the names of blobs: the caller stores the
	// files and fills them in.
	Output video.ChunkOutput
	// Renditions are the files of Output.Renditions, in the same order; empty
	// when the chunk turned out to hold no frames.
	Renditions []string
	Tiles      string // file, or empty when no tile falls into the chunk
	Poster     string // file, or empty when the poster is in another chunk
}

// slack is how far beyond its promised end the last chunk may run, in seconds;
// a source that goes on after that promised something else.
const slack = 10

// EncodeChunk encodes chunk index of the plan, every rendition from one
// decoding, into dir, which must exist, and verifies it: the first frame is the
// chunk's first frame, and none is missing. When leading frames are missing, it
// starts decoding earlier and tries again.
//
// A *video.Failure says that the source is broken: all bytes that ffmpeg wanted
// were there, and no try gave every frame. Any other error may pass. Repeating
// the call gives the same bytes (Q8, Q16c).
func EncodeChunk(ctx context.Context, tool *ffmpeg.Tool, src ffmpeg.Source, plan video.Plan, index int, dir string) (Encoded, error) {
	return encodeChunk(ctx, tool, ffmpeg.ChunkJob{Source: src, Plan: plan, Index: index, Dir: dir, Stills: true})
}

// encodeChunk runs a job with larger and larger margins until all frames are there.
func encodeChunk(ctx context.Context, tool *ffmpeg.Tool, job ffmpeg.ChunkJob) (Encoded, error) {
	plan, index := job.Plan, job.Index
	chunk, last := plan.Chunks[index], plan.Last(index)
	job.Dir = filepath.Join(job.Dir, "chunk")
	job.End = chunk.To
	open := last && plan.Pictures == 0 // else the last picture stays up to the planned end
	if open {
		job.End += max(plan.FPS.Frames(slack), plan.Frames/20)
	}
	for i := range plan.Renditions {
		job.Renditions = append(job.Renditions, i)
	}

	var missing error
	for _, job.Margin = range margins(plan.FPS, chunk) {
		// What an earlier try left is not taken for the result of this one.
		if err := errors.Join(os.RemoveAll(job.Dir), os.Mkdir(job.Dir, 0o700)); err != nil {
			return Encoded{}, fmt.Errorf("making the chunk's directory: %w", err)
		}
		var encoded Encoded
		var frames int64
		err := runChunk(ctx, tool, job)
		if err == nil {
			if encoded, frames, err = verify(job); err != nil {
				err = fmt.Errorf("verifying chunk %d: %w", index, err)
			}
		}
		var gap *incompleteError
		switch {
		case err == nil:
			missing = nil
			if open {
				missing = checkDuration(plan, chunk.From+frames, frames >= job.End-chunk.From)
			}
			if missing == nil {
				return encoded, nil
			}
		case errors.As(err, &gap):
			missing = undecodable(plan, chunk, ": "+gap.detail)
		case errors.As(err, new(*ffmpeg.RunError)):
			missing = undecodable(plan, chunk, "")
		default:
			return Encoded{}, err
		}
	}
	return Encoded{}, missing
}

// undecodable is the failure of a chunk whose bytes were all there to be read.
func undecodable(plan video.Plan, chunk video.Chunk, why string) error {
	return video.Fail(video.CorruptMedia, "The video cannot be decoded between %s and %s%s.", clock(plan, chunk.From), clock(plan, chunk.To), why)
}

func clock(plan video.Plan, frame int64) string { return plan.FPS.Duration(frame).String() }

// margins are the seconds before the chunk where decoding starts, try by try; the last try
// reads from the start of the source. What is decoded before the first picture is thrown
// away, so less is better; too little costs another try. The index leads to the keyframe
// before. Older releases of ffmpeg look it up in the order of decoding, where a keyframe is
// some pictures earlier than shown: 2 as x264 does it, 4 with a deep pyramid of B-frames.
func margins(fps video.Rational, chunk video.Chunk) (list []float64) {
	for m := fps.Seconds(4) + 0.1; m < fps.Seconds(chunk.From) && len(list) < 4; m *= 4 {
		list = append(list, m)
	}
	return append(list, -1)
}

// checkDuration compares the real length of the video with the promised one.
func checkDuration(plan video.Plan, total int64, more bool) error {
	if more {
		return video.Fail(video.CorruptMedia, "The video is much longer than the %.1f seconds that the file promises.", plan.DurationSeconds)
	}
	lost := plan.Frames - total
	if allowed := max(plan.Frames/20, plan.FPS.Frames(0.5), 2); total <= 0 || lost > allowed {
		return video.Fail(video.CorruptMedia, "Only %d of %d frames can be decoded.", total, plan.Frames)
	}
	return nil
}

// runChunk runs ffmpeg once, or for the first chunk, which a viewer is waiting
// for, once for the largest rendition and at the same time once for the others.
// That costs a quarter more, so with a low priority or on one core it is once again. Each
// has one encoding thread: that is what makes the bytes the same on every try.
func runChunk(ctx context.Context, tool *ffmpeg.Tool, job ffmpeg.ChunkJob) error {
	jobs := []ffmpeg.ChunkJob{job}
	if job.Index == 0 && ffmpeg.RunsOf(ctx).Nice == 0 && runtime.GOMAXPROCS(0) > 1 && len(job.Renditions) > 1 {
		top, rest := job, job
		top.Renditions, top.Stills = job.Renditions[:1], false
		rest.Renditions = job.Renditions[1:]
		jobs = []ffmpeg.ChunkJob{top, rest}
	}
	group, ctx := errgroup.WithContext(ctx) // returns the first error, not the one that it causes
	for _, j := range jobs {
		group.Go(func() error { return tool.Chunk(ctx, j) })
	}
	return group.Wait()
}

// incompleteError says that frames are missing; decoding from further back may help.
type incompleteError struct{ detail string }

func (e *incompleteError) Error() string { return e.detail }

func isIncomplete(format string, args ...any) error {
	return &incompleteError{detail: fmt.Sprintf(format, args...)}
}

// verify reads every file of the chunk and describes it.
func verify(job ffmpeg.ChunkJob) (Encoded, int64, error) {
	chunk, last := job.Plan.Chunks[job.Index], job.Plan.Last(job.Index)
	var e Encoded
	for i, r := range job.Plan.Renditions {
		path := filepath.Join(job.Dir, ffmpeg.RenditionFile(r.Name))
		out, frames, err := verifyRendition(job, r, path)
		if err != nil {
			return e, 0, fmt.Errorf("rendition %s: %w", r.Name, err)
		}
		if i > 0 && frames != e.Output.Frames {
			return e, 0, isIncomplete("rendition %s has %d frames, others have %d", r.Name, frames, e.Output.Frames)
		}
		e.Output.Frames = frames
		e.Output.Renditions = append(e.Output.Renditions, out)
		if frames > 0 {
			e.Renditions = append(e.Renditions, path)
		}
	}
	if want := chunk.To - chunk.From; e.Output.Frames != want && !last {
		return e, 0, isIncomplete("%d of %d frames are there", e.Output.Frames, want)
	}
	return e, e.Output.Frames, verifyStills(job, &e)
}

func verifyRendition(job ffmpeg.ChunkJob, r video.Rendition, path string) (video.RenditionOutput, int64, error) {
	plan, from := job.Plan, job.Plan.Chunks[job.Index].From
	out := video.RenditionOutput{Name: r.Name, Segments: []video.Segment{}}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return out, 0, nil // no frames at all
	}
	if err != nil {
		return out, 0, fmt.Errorf("opening the encoded file: %w", err)
	}
	defer func() { _ = f.Close() }()
	in, err := readTrack(f)
	if err != nil || len(in.Segments) == 0 {
		return out, 0, err
	}
	in.Name = r.Name
	var frames int64
	for i, s := range in.Segments {
		if s.Frames == 0 {
			return out, 0, isIncomplete("segment %d is empty", i)
		}
		// Ticks of a frame number: exact, for the time scale is a multiple of the rate.
		if at := (from + frames) * plan.FPS.Den * in.timescale; in.starts[i]*plan.FPS.Num != at {
			return out, 0, isIncomplete("segment %d starts at tick %d of %d/s, not at frame %d", i, in.starts[i], in.timescale, from+frames)
		}
		if i < len(in.Segments)-1 && s.Frames != plan.SegmentFrames {
			return out, 0, isIncomplete("segment %d has %d frames, not %d", i, s.Frames, plan.SegmentFrames)
		}
		frames += s.Frames
	}
	return in.RenditionOutput, frames, nil
}

// verifyStills checks the images that are due. An image of the last chunk may
// be missing when the video ends sooner than promised.
func verifyStills(job ffmpeg.ChunkJob, e *Encoded) error {
	plan, chunk := job.Plan, job.Plan.Chunks[job.Index]
	end := min(chunk.To, chunk.From+e.Output.Frames)
	if n := ffmpeg.TilesIn(plan, chunk.From, end); job.Stills && n > 0 {
		path := filepath.Join(job.Dir, ffmpeg.TilesFile)
		width, height, err := imageSize(path)
		if err != nil {
			return err
		}
		if width < n*plan.TileWidth || height != plan.TileHeight {
			return isIncomplete("the strip of %d tiles is %d × %d pixels", n, width, height)
		}
		e.Tiles, e.Output.TileCount = path, n
	}
	if job.Stills && plan.PosterFrame >= chunk.From && plan.PosterFrame < end {
		path := filepath.Join(job.Dir, ffmpeg.PosterFile)
		if _, _, err := imageSize(path); err != nil {
			return err
		}
		e.Poster = path
	}
	return nil
}

func imageSize(path string) (width, height int, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, isIncomplete("%s is missing", filepath.Base(path))
	}
	if err != nil {
		return 0, 0, fmt.Errorf("opening a still image: %w", err)
	}
	defer func() { _ = f.Close() }()
	c, err := jpeg.DecodeConfig(f)
	if err != nil {
		return 0, 0, fmt.Errorf("reading %s: %w", filepath.Base(path), err)
	}
	return c.Width, c.Height, nil
}
