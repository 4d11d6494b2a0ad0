package ffmpeg

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	ff "github.com/u2takey/ffmpeg-go"

	"github.com/cutroom/cutroom/shared/video"
)

// Frame writes the picture that a source shows at a second as a small JPEG.
// Nothing is written when there is none. Repeating it overwrites the file.
func (t *Tool) Frame(ctx context.Context, src Source, plan video.Plan, second float64, path string) error {
	in := t.guard(src)
	in["threads"] = "1"
	in["ss"] = strconv.FormatFloat(second, 'f', 6, 64)
	out := ff.Input(src.input(), in).Get("v:0").
		Filter("scale", ff.Args{"160", "90"}).
		Output(filepath.Base(path), ff.KwArgs{"frames:v": "1", "q:v": "3", "pix_fmt": "yuvj420p", "flags": "+bitexact", "fflags": "+bitexact", "f": "image2", "update": "1", "c:v": "mjpeg"})
	args := slices.Concat(t.globals(), out.GetArgs())
	_, err := t.run(ctx, command{path: t.FFmpeg, args: args, dir: filepath.Dir(path), source: src, limits: encodingOf(plan, 0)})
	if err != nil {
		return fmt.Errorf("taking a picture: %w", err)
	}
	return nil
}
