package media

import (
	"context"
	"errors"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
)

// Remux gives a source without duration or index (ffmpeg.Info.NeedsRemux) both,
// by copying its streams into the local file out, without decoding. Probe the
// result as ffmpeg.Source{URL: out} and plan that.
//
// A *video.Failure says that the source is broken; any other error may pass.
// progress gets the bytes written so far; it may be nil. Repeating the call
// overwrites out.
func Remux(ctx context.Context, tool *ffmpeg.Tool, src ffmpeg.Source, out string, progress func(bytes int64)) error {
	err := tool.Remux(ctx, src, out, bytesOf(progress))
	if errors.As(err, new(*ffmpeg.RunError)) {
		return video.Fail(video.CorruptMedia, "The file has no index, and its streams cannot be copied into one that has.")
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
