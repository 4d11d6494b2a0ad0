package pipeline

import (
	"context"

	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
)

func init() {
	readers = append(readers, func(ctx context.Context, tool *ffmpeg.Tool, source ffmpeg.Source) error {
		_, err := tool.Loudness(ctx, source)
		return err
	})
}
