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
	out, err := media.EncodeChunk(ctx, s.Tool, source, w.Plan, w.Key.Index, w.Dir)
	if err != nil {
		return videostore.Commit{}, err
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range out.Renditions {
		group.Go(func() error { return w.Replace(ctx, &out.Renditions[i].Blob, "video/mp4") })
	}
	group.Go(func() error { return w.Replace(ctx, &out.Tiles, "image/jpeg") })
	group.Go(func() error { return w.Replace(ctx, &out.Poster, "image/jpeg") })
	if err := group.Wait(); err != nil {
		return videostore.Commit{}, err
	}
	return videostore.Commit{Output: out}, nil
}
