package step

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
	"github.com/cutroom/cutroom/workerrole/internal/media"
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
)

// Encode makes one chunk in every rendition; the source is decoded once.
//
//	Reads   the source blob, the chunk's range of it
//	Writes  media/{attempt}/{rendition}.m4s, tiles.jpg, sometimes poster.jpg
//	Next    the first chunk that is not promised; finish, when all parts have ended
//	Errors  *engine.Failure when the content cannot be decoded
//	Repeat  writes to names of its own; only one attempt's row commits
type Encode struct{ Tool *ffmpeg.Tool }

// Run implements pipeline.Step.
func (s Encode) Run(ctx context.Context, w *pipeline.Work) (videostore.Commit, error) {
	source, err := w.OpenSource(ctx)
	if err != nil {
		return videostore.Commit{}, err
	}
	encoded, err := media.EncodeChunk(ctx, s.Tool, source, w.Plan, w.Key.Index, w.Dir)
	if err != nil {
		return videostore.Commit{}, err
	}
	out := encoded.Output
	group, ctx := errgroup.WithContext(ctx)
	put := func(file, contentType string, blob *string) {
		if file != "" {
			group.Go(func() error {
				stored, err := w.Put(ctx, file, contentType)
				*blob = stored.Blob
				return err
			})
		}
	}
	for i, file := range encoded.Renditions { // none when the last chunk has no frames
		put(file, "video/mp4", &out.Renditions[i].Blob)
	}
	put(encoded.Tiles, "image/jpeg", &out.Tiles)
	put(encoded.Poster, "image/jpeg", &out.Poster)
	if err := group.Wait(); err != nil {
		return videostore.Commit{}, err
	}
	return videostore.Commit{Output: out}, nil
}
