package ffmpeg

import (
	"context"

	"github.com/cutroom/cutroom/shared/video"
)

func init() {
	ofOurs["Clip"] = func(ctx context.Context, tool *Tool, pictures, sound, out string) error {
		return tool.Clip(ctx, ClipJob{Video: pictures, Audio: sound, Out: out, FPS: video.Rational{Num: 30, Den: 1}, Frames: 1})
	}
}
