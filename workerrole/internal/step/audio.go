package step

import (
	"context"
	"slices"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/workerrole/internal/failpoint"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
	"github.com/cutroom/cutroom/workerrole/internal/media"
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
)

// Audio encodes one portion of the first audio track.
//
//	Reads   the source blob, the portion's range of it
//	Writes  media/{attempt}/audio.m4s
//	Next    finish, when every chunk and every other portion is done already
//	Errors  *engine.Failure when the track cannot be decoded
//	Repeat  writes to a name of its own; only one attempt's row commits
type Audio struct{ Tool *ffmpeg.Tool }

// Run implements pipeline.Step.
func (s Audio) Run(ctx context.Context, w *pipeline.Work) (videostore.Commit, error) {
	source, err := w.OpenSource(ctx)
	if err != nil {
		return videostore.Commit{}, err
	}
	part, truncated, err := media.EncodePortion(ctx, s.Tool, source, w.Plan, w.Key.Index, w.Dir)
	if err != nil {
		return videostore.Commit{}, err
	}
	var commit videostore.Commit
	if truncated {
		commit.Edit = func(v *video.Video) {
			if !slices.Contains(v.Notices, video.AudioTruncated) {
				v.Notices = append(v.Notices, video.AudioTruncated)
			}
		}
	}
	if len(part.Segments) == 0 {
		return commit, nil // the track is shorter than the container says
	}
	if err := w.Replace(ctx, &part.Blob, "audio/mp4"); err != nil {
		return videostore.Commit{}, err
	}
	failpoint.Hit("audio/part")
	commit.Output = part
	return commit, nil
}
