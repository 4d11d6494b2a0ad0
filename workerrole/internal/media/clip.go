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
	parsed, err := readBoxes(job.Out)
	if err != nil {
		return err
	}
	moov := parsed.Moov
	if moov == nil || moov.Trak == nil {
		return errors.New("the clip has no index")
	}
	// The pictures are the first track.
	if frames := int64(moov.Trak.Mdia.Minf.Stbl.Stsz.SampleNumber); frames != job.Frames {
		return fmt.Errorf("the clip has %d frames, not %d", frames, job.Frames)
	}
	return nil
}
