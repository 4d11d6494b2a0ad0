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
// progress gets the bytes written so far; it may be nil. Repeating the call
// overwrites out.
func Remux(ctx context.Context, tool *ffmpeg.Tool, src ffmpeg.Source, info ffmpeg.Info, out string, progress func(bytes int64)) error {
	err := tool.Remux(ctx, src, info, out, bytesOf(progress))
	if errors.As(err, new(*ffmpeg.RunError)) {
		return video.Fail(video.CorruptMedia, "Its pictures and sound cannot be brought onto one time line.")
	}
	return err
}

// MakeDownload joins one rendition and the audio into an MP4 that can be
// downloaded or played anywhere. videoFile is the init segment and every
// segment of one rendition in a row; audioFile the same for audio, or empty for
// a silent video. Nothing is encoded.
//
// progress gets the bytes written so far; it may be nil. Repeating the call
// overwrites out.
func MakeDownload(ctx context.Context, tool *ffmpeg.Tool, videoFile, audioFile, out string, progress func(bytes int64)) error {
	return tool.Mux(ctx, videoFile, audioFile, out, bytesOf(progress))
}

func bytesOf(progress func(int64)) func(ffmpeg.Progress) {
	if progress == nil {
		return nil
	}
	return func(p ffmpeg.Progress) { progress(p.Bytes) }
}
