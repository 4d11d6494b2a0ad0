package step

import (
	"context"
	"path/filepath"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
	"github.com/cutroom/cutroom/workerrole/internal/media"
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
)

// Probe examines an upload, makes its plan, and promises the first chunks and the sound.
//
//	Reads   the upload, by ranges
//	Writes  sources/{attempt}/prepared.mkv, only when the upload has no index;
//	        rows PLAN, META (processing) and the outbox, with the commit
//	Next    encode for the first chunks, the other parts, index
//	Errors  *engine.Failure for whatever is not a video that we take
//	Repeat  makes the same plan from the same bytes
type Probe struct{ Tool *ffmpeg.Tool }

// Run implements pipeline.Step.
func (s Probe) Run(ctx context.Context, w *pipeline.Work) (videostore.Commit, error) {
	source, err := w.OpenSource(ctx)
	if err != nil {
		return videostore.Commit{}, err
	}
	info, err := s.Tool.Probe(ctx, source)
	if err != nil {
		return videostore.Commit{}, err
	}
	w.Progress()
	var copied *engine.Blob
	if info.NeedsRemux {
		if w.Growing() {
			return videostore.Commit{}, engine.Fail(video.UnsupportedMedia, "This kind of file can be read when all of it is there.")
		}
		if info, copied, err = s.remux(ctx, w, source, info); err != nil {
			return videostore.Commit{}, err
		}
	}
	plan, err := media.Plan(info)
	if err != nil {
		return videostore.Commit{}, err
	}
	plan.Copy = copied
	return videostore.Commit{
		Output: info,
		Plan:   &plan,
		Edit: func(v *video.Video) {
			v.DurationSeconds, v.Width, v.Height = plan.DurationSeconds, plan.Width, plan.Height
			v.FPS, v.Renditions, v.Notices = plan.FPS, plan.Renditions, info.Notices
		},
	}, nil
}

// remux brings a source that cannot be cut as it is onto one time line, in a file that has
// an index.
func (s Probe) remux(ctx context.Context, w *pipeline.Work, source ffmpeg.Source, found ffmpeg.Info) (ffmpeg.Info, *engine.Blob, error) {
	path := filepath.Join(w.Dir, "prepared.mkv")
	if err := w.CheckFreeSpace(source.CopyLimit(found)); err != nil {
		return ffmpeg.Info{}, nil, err
	}
	if err := s.Tool.Remux(ctx, source, found, path); err != nil {
		return ffmpeg.Info{}, nil, err
	}
	info, err := s.Tool.Probe(ctx, ffmpeg.Source{URL: path})
	if err != nil {
		return ffmpeg.Info{}, nil, err
	}
	info.Notices = append(found.Notices, info.Notices...)
	copied, err := w.PutSource(ctx, path, "video/x-matroska")
	return info, &copied, err
}
