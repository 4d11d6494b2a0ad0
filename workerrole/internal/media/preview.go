package media

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/previews"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
)

// Preview is what a viewer can watch of a chunk before it is made, on the local disk.
type Preview struct {
	Output   previews.Preview // complete but for the names of blobs
	Pictures string           // file; empty when the chunk turned out to hold no frames
	Sound    string           // file; empty when there is no sound
}

// EncodePreview makes the smallest rendition of chunk index, and its sound, in dir, which
// must exist.
//
// Errors are those of [EncodeChunk] and [EncodePortion]. Repeating the call
// gives the same bytes (Q8).
func EncodePreview(ctx context.Context, tool *ffmpeg.Tool, src ffmpeg.Source, plan video.Plan, index int, dir string) (Preview, error) {
	small := plan
	small.Renditions = plan.Renditions[len(plan.Renditions)-1:]
	made := Preview{Output: previews.Preview{Chunk: index}}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		encoded, err := encodeChunk(ctx, tool, ffmpeg.ChunkJob{Source: src, Plan: small, Index: index, Dir: dir, Preview: true})
		if err == nil && len(encoded.Renditions) > 0 {
			made.Pictures = encoded.Renditions[0]
		}
		made.Output.Pictures = encoded.Output
		return err
	})
	if plan.HasAudio {
		group.Go(func() error {
			portion, _, err := encodePortion(ctx, tool, src, plan, soundOf(plan, index), dir)
			if err == nil && len(portion.Part.Segments) > 0 {
				made.Sound, made.Output.Sound = portion.Path, &portion.Part
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
