package media

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/previews"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
)

// EncodePreview makes the smallest rendition of chunk index, and its sound, in dir, which
// must exist. Where the output names blobs it has local files.
//
// Errors are those of [EncodeChunk] and [EncodePortion]. Repeating the call
// gives the same bytes (Q8).
func EncodePreview(ctx context.Context, tool *ffmpeg.Tool, src ffmpeg.Source, plan video.Plan, index int, dir string) (previews.Preview, error) {
	small := plan
	small.Renditions = plan.Renditions[len(plan.Renditions)-1:]
	made := previews.Preview{Chunk: index}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		made.Pictures, err = encodeChunk(ctx, tool, ffmpeg.ChunkJob{Source: src, Plan: small, Index: index, Dir: dir, Preview: true})
		return err
	})
	if plan.HasAudio {
		group.Go(func() error {
			part, _, err := encodePortion(ctx, tool, src, plan, soundOf(plan, index), dir)
			if len(part.Segments) > 0 {
				made.Sound = &part
			}
			return err
		})
	}
	err := group.Wait()
	return made, err
}

// soundOf is the sound from the start of a chunk to its end, in segments of the plan.
func soundOf(plan video.Plan, index int) video.SoundPortion {
	chunk := plan.Chunks[index]
	p := video.SoundPortion{First: video.SoundAt(plan.FPS.Seconds(chunk.From))}
	for p.End = p.First + 1; video.SoundStart(p.End) < plan.FPS.Seconds(chunk.To); p.End++ {
	}
	return p
}
