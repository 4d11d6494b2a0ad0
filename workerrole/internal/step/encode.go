package step

import (
	"context"
	"fmt"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
	"github.com/cutroom/cutroom/workerrole/internal/media"
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
)

// Encode makes one chunk in every rendition, from one decode.
//
//	Reads   the source blob, the chunk's range of it
//	Writes  media/{attempt}/{rendition}.m4s, tiles.jpg, sometimes poster.jpg
//	Next    the chunk that no message asks for yet; finish, when it was the last
//	Errors  *video.Failure when the content cannot be decoded
//	Repeat  writes to names of its own; only one attempt's row commits
type Encode struct {
	Videos  *videostore.Store
	Sources Sources
	Tool    *ffmpeg.Tool
}

// Name implements pipeline.Step.
func (Encode) Name() string { return videostore.StepEncode }

// Run implements pipeline.Step.
func (s Encode) Run(ctx context.Context, w *pipeline.Work) (videostore.Commit, error) {
	source, _, err := s.Sources.Open(ctx, sourceOf(w.Plan), w.Plan.Demuxer)
	if err != nil {
		return videostore.Commit{}, err
	}
	encoded, err := media.EncodeChunk(ctx, s.Tool, source, w.Plan, w.Step.Key.Index, w.Dir, func(int64) { w.Progress() })
	if err != nil {
		return videostore.Commit{}, err
	}
	out := encoded.Output
	group, ctx := errgroup.WithContext(ctx)
	put := func(file, contentType string, blob *string) {
		if file != "" {
			group.Go(func() (err error) { *blob, err = s.put(ctx, w, file, contentType); return err })
		}
	}
	for i, file := range encoded.Renditions { // none when the last chunk turned out to be empty
		put(file, "video/mp4", &out.Renditions[i].Blob)
	}
	put(encoded.Tiles, "image/jpeg", &out.Tiles)
	put(encoded.Poster, "image/jpeg", &out.Poster)
	if err := group.Wait(); err != nil {
		return videostore.Commit{}, err
	}
	return videostore.Commit{Output: out, Advance: true}, nil
}

// put stores a file under the attempt's own prefix and returns the blob's name.
func (s Encode) put(ctx context.Context, w *pipeline.Work, path, contentType string) (string, error) {
	blob := w.Prefix + filepath.Base(path)
	if err := s.Sources.Blobs.PutFile(ctx, video.MediaContainer, blob, path, blobstore.Options{ContentType: contentType}); err != nil {
		return "", fmt.Errorf("store %s of %s: %w", filepath.Base(path), w.Step.Key, err)
	}
	w.Progress()
	return blob, nil
}

// After implements pipeline.Follower.
func (s Encode) After(ctx context.Context, c *videostore.Claim) error {
	return followPart(ctx, s.Videos, c)
}

// followPart is what follows every commit that adds to a video: it may be
// playable now, and it may be complete now.
func followPart(ctx context.Context, videos *videostore.Store, c *videostore.Claim) error {
	key := c.Step.Key
	if !c.Video.Playable {
		if err := videos.MarkPlayable(ctx, key.ID); err != nil {
			return err
		}
	}
	plan, err := videos.Plan(ctx, key.ID, key.Generation)
	if err != nil {
		return err
	}
	_, err = videos.FanIn(ctx, key.ID, plan)
	return err
}
