package media

import (
	"context"
	"errors"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
)

// Remux makes a local file out of a source that cannot be cut as it is
// (ffmpeg.Info.NeedsRemux): one time line, with an index. Probe the result as
// ffmpeg.Source{URL: out} and plan that.
//
// A *video.Failure says that the source is broken; any other error may pass.
// Repeating the call overwrites out.
func Remux(ctx context.Context, tool *ffmpeg.Tool, src ffmpeg.Source, info ffmpeg.Info, out string) error {
	err := tool.Remux(ctx, src, info, out)
	if errors.As(err, new(*ffmpeg.RunError)) {
		return video.Fail(video.CorruptMedia, "Its pictures and sound cannot be brought onto one time line.")
	}
	return err
}
