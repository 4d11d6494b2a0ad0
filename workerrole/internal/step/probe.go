package step

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
	"github.com/cutroom/cutroom/workerrole/internal/media"
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
)

// Probe looks at an upload, decides how it is cut and fans out.
//
//	Reads   the source blob, by ranges
//	Writes  sources/{attempt}/prepared.mkv, only when the upload has no index;
//	        rows PLAN, META (processing) and the outbox, with its own row
//	Next    encode for every chunk, audio, index
//	Errors  *video.Failure for whatever is not a video that we take
//	Repeat  makes the same plan from the same bytes
type Probe struct {
	Sources Sources
	Tool    *ffmpeg.Tool
	Limits  media.Limits
}

// Name implements pipeline.Step.
func (Probe) Name() string { return videostore.StepProbe }

// Run implements pipeline.Step.
func (s Probe) Run(ctx context.Context, w *pipeline.Work) (videostore.Commit, error) {
	id := w.Video.ID
	from := Pinned{Blob: video.SourceBlob(id), ETag: w.Video.SourceETag}
	source, from, err := s.Sources.Open(ctx, from, "")
	if err != nil {
		return videostore.Commit{}, err
	}
	info, err := s.Tool.Probe(ctx, source)
	if err != nil {
		return videostore.Commit{}, err
	}
	w.Progress()
	if info.NeedsRemux {
		if info, from, err = s.remux(ctx, w, source); err != nil {
			return videostore.Commit{}, err
		}
	}
	plan, err := media.Plan(info, s.Limits)
	if err != nil {
		return videostore.Commit{}, err
	}
	plan.Generation, plan.Source, plan.SourceETag = w.Step.Key.Generation, from.Blob, from.ETag
	return videostore.Commit{
		Output: info,
		Plan:   &plan,
		Video: func(v *video.Video) {
			v.State = video.Processing
			v.DurationSeconds, v.Width, v.Height = plan.DurationSeconds, plan.Width, plan.Height
			v.FPS, v.Renditions = plan.FPS, plan.Renditions
		},
		Next: append(videostore.FanOut(w.Video, plan), videostore.IndexIntent()),
	}, nil
}

// remux copies the streams of a source that cannot be sought in into a file with
// an index, so that a chunk need not read everything before it.
func (s Probe) remux(ctx context.Context, w *pipeline.Work, source ffmpeg.Source) (ffmpeg.Info, Pinned, error) {
	path := filepath.Join(w.Dir, "prepared.mkv")
	if err := media.Remux(ctx, s.Tool, source, path, func(int64) { w.Progress() }); err != nil {
		return ffmpeg.Info{}, Pinned{}, err
	}
	info, err := s.Tool.Probe(ctx, ffmpeg.Source{URL: path})
	if err != nil {
		return ffmpeg.Info{}, Pinned{}, err
	}
	copied := Pinned{Blob: w.Prefix + filepath.Base(path)}
	if err := s.Sources.Blobs.PutFile(ctx, video.SourcesContainer, copied.Blob, path, blobstore.Options{ContentType: "video/x-matroska"}); err != nil {
		return ffmpeg.Info{}, Pinned{}, fmt.Errorf("store the remuxed source of %s: %w", w.Video.ID, err)
	}
	// Nobody else has this attempt's name, so what is there is what was put.
	head, err := s.Sources.Blobs.Head(ctx, video.SourcesContainer, copied.Blob)
	if err != nil {
		return ffmpeg.Info{}, Pinned{}, fmt.Errorf("look at the remuxed source of %s: %w", w.Video.ID, err)
	}
	copied.ETag = head.ETag
	return info, copied, nil
}
