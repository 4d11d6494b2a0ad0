package media

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/jpeg"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
)

// slack is how many seconds the last chunk may run beyond its promised end.
const slack = 10

// EncodeChunk encodes chunk index of the plan, every rendition from one decoding, into dir,
// which must exist, and verifies it: the first frame is the chunk's, and none is missing.
// When leading frames are missing, it starts decoding earlier and tries again. Where the output
// names blobs it has local files; none when the last chunk has no frames, or without an image.
//
// A *engine.Failure says that the source is broken: all bytes that ffmpeg wanted
// were there, and no try gave every frame. Any other error may pass. Repeating
// the call gives the same bytes (Q8, Q16c).
func EncodeChunk(ctx context.Context, tool *ffmpeg.Tool, src ffmpeg.Source, plan video.Plan, index int, dir string) (video.ChunkOutput, error) {
	return encodeChunk(ctx, tool, ffmpeg.ChunkJob{Source: src, Plan: plan, Index: index, Dir: dir, Stills: true})
}

// encodeChunk runs a job with larger and larger margins until all frames are there.
func encodeChunk(ctx context.Context, tool *ffmpeg.Tool, job ffmpeg.ChunkJob) (video.ChunkOutput, error) {
	plan, chunk := job.Plan, job.Plan.Chunks[job.Index]
	job.Dir = filepath.Join(job.Dir, "chunk")
	job.End = chunk.To
	if openEnded(job) {
		job.End += max(plan.FPS.Frames(slack), plan.Frames/20)
	}
	job.Renditions = plan.Renditions
	var missing error
	for _, job.Margin = range margins(plan.FPS, chunk) {
		// What an earlier try left is not taken for the result of this one.
		if err := errors.Join(os.RemoveAll(job.Dir), os.Mkdir(job.Dir, 0o700)); err != nil {
			return video.ChunkOutput{}, fmt.Errorf("making the chunk's directory: %w", err)
		}
		err := runChunk(ctx, tool, job)
		if errors.As(err, new(*ffmpeg.RunError)) {
			missing = undecodable(job, "")
			continue
		}
		if err != nil {
			return video.ChunkOutput{}, err
		}
		encoded, err := verify(job)
		if !errors.As(err, new(*engine.Failure)) {
			return encoded, err
		}
		missing = err
	}
	return video.ChunkOutput{}, missing
}

// openEnded reports whether a chunk goes on as long as the source does. Elsewhere, and where
// the last picture stays, it ends as planned.
func openEnded(job ffmpeg.ChunkJob) bool {
	return job.Plan.Last(job.Index) && job.Plan.Pictures == 0
}

// undecodable is the failure of a chunk whose bytes were all there to be read. Decoding from
// further back may help.
func undecodable(job ffmpeg.ChunkJob, reason string, args ...any) error {
	clock := func(frame int64) string { return job.Plan.FPS.Duration(frame).String() }
	chunk := job.Plan.Chunks[job.Index]
	return engine.Fail(video.CorruptMedia, "The video cannot be decoded between %s and %s%s.", clock(chunk.From), clock(chunk.To), fmt.Sprintf(reason, args...))
}

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

func checkDuration(job ffmpeg.ChunkJob, total int64) error {
	plan := job.Plan
	if !openEnded(job) {
		return nil
	}
	if total >= job.End {
		return engine.Fail(video.CorruptMedia, "The video is much longer than the %.1f seconds that the file promises.", plan.DurationSeconds)
	}
	lost := plan.Frames - total
	if allowed := max(plan.Frames/20, plan.FPS.Frames(0.5), 2); total <= 0 || lost > allowed {
		return engine.Fail(video.CorruptMedia, "Only %d of %d frames can be decoded.", total, plan.Frames)
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

func verify(job ffmpeg.ChunkJob) (e video.ChunkOutput, _ error) {
	chunk := job.Plan.Chunks[job.Index]
	for i, r := range job.Plan.Renditions {
		path := filepath.Join(job.Dir, ffmpeg.RenditionFile(r.Name))
		out, frames, err := verifyRendition(job, r, path)
		if err != nil {
			return e, fmt.Errorf("verifying rendition %s of chunk %d: %w", r.Name, job.Index, err)
		}
		if i > 0 && frames != e.Frames {
			return e, undecodable(job, ": rendition %s has %d frames, others have %d", r.Name, frames, e.Frames)
		}
		e.Frames = frames
		e.Renditions = append(e.Renditions, out)
	}
	if want := chunk.To - chunk.From; e.Frames != want && !openEnded(job) {
		return e, undecodable(job, ": %d of %d frames are there", e.Frames, want)
	}
	err := checkDuration(job, chunk.From+e.Frames)
	if err == nil {
		err = verifyStills(job, &e)
	}
	return e, err
}

func verifyRendition(job ffmpeg.ChunkJob, r video.Rendition, path string) (video.RenditionOutput, int64, error) {
	plan, from := job.Plan, job.Plan.Chunks[job.Index].From
	out := video.RenditionOutput{Name: r.Name, Segments: []video.Segment{}}
	in, err := readTrack(path)
	if errors.Is(err, fs.ErrNotExist) {
		return out, 0, nil // no frames at all
	}
	if err != nil || len(in.Segments) == 0 {
		return out, 0, err
	}
	in.Name, in.Blob = r.Name, path
	var frames int64
	for i, s := range in.Segments {
		if s.Frames == 0 {
			return out, 0, undecodable(job, ": segment %d is empty", i)
		}
		// Ticks of a frame number: exact, for the time scale is a multiple of the rate.
		if at := (from + frames) * plan.FPS.Den * in.timescale; in.starts[i]*plan.FPS.Num != at {
			return out, 0, undecodable(job, ": segment %d starts at tick %d of %d/s, not at frame %d", i, in.starts[i], in.timescale, from+frames)
		}
		if i < len(in.Segments)-1 && s.Frames != plan.SegmentFrames {
			return out, 0, undecodable(job, ": segment %d has %d frames, not %d", i, s.Frames, plan.SegmentFrames)
		}
		frames += s.Frames
	}
	return in.RenditionOutput, frames, nil
}

// verifyStills checks the images that are due: those before the end of the frames.
func verifyStills(job ffmpeg.ChunkJob, e *video.ChunkOutput) error {
	plan, chunk := job.Plan, job.Plan.Chunks[job.Index]
	end := min(chunk.To, chunk.From+e.Frames)
	var due []string
	if n := ffmpeg.TilesIn(plan, chunk.From, end); job.Stills && n > 0 {
		e.Tiles, e.TileCount = filepath.Join(job.Dir, ffmpeg.TilesFile), n
		due = append(due, e.Tiles)
	}
	if job.Stills && plan.PosterFrame >= chunk.From && plan.PosterFrame < end {
		e.Poster = filepath.Join(job.Dir, ffmpeg.PosterFile)
		due = append(due, e.Poster)
	}
	for _, path := range due {
		picture, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return undecodable(job, ": %s is missing", filepath.Base(path))
		}
		if err == nil {
			_, err = jpeg.DecodeConfig(bytes.NewReader(picture))
		}
		if err != nil {
			return fmt.Errorf("reading a still image: %w", err)
		}
	}
	return nil
}
