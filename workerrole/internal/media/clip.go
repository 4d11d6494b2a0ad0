package media

import (
	"context"
	"errors"
	"fmt"

	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
)

// MakeClip cuts a clip and verifies that none of its frames is missing. It is
// exact to the frame because its input is: segments that EncodeChunk verified.
//
// Any error may pass. Repeating the call overwrites job.Out.
func MakeClip(ctx context.Context, tool *ffmpeg.Tool, job ffmpeg.ClipJob) error {
	if err := tool.Clip(ctx, job); err != nil {
		return err
	}
	frames, err := framesIn(job.Out)
	if err != nil {
		return err
	}
	if frames != job.Frames {
		return fmt.Errorf("the clip has %d frames, not %d", frames, job.Frames)
	}
	return nil
}

// framesIn counts the pictures of an MP4 that is not fragmented.
func framesIn(path string) (int64, error) {
	parsed, err := readBoxes(path)
	if err != nil {
		return 0, err
	}
	if parsed.Moov == nil {
		return 0, errors.New("reading the boxes: there is no index")
	}
	for _, trak := range parsed.Moov.Traks {
		if trak.Mdia.Hdlr.HandlerType == "vide" {
			return int64(trak.Mdia.Minf.Stbl.Stsz.SampleNumber), nil
		}
	}
	return 0, nil
}
