package ffmpeg

import (
	"context"
	"path/filepath"
	"strconv"

	ff "github.com/u2takey/ffmpeg-go"

	"github.com/cutroom/cutroom/shared/video"
)

// Frame writes the picture that a source shows at a second as a small JPEG.
// Nothing is written when there is none. Repeating it overwrites the file.
func (t *Tool) Frame(ctx context.Context, src Source, plan video.Plan, second float64, path string) error {
	in := with(t.guard(src), ff.KwArgs{"threads": "1", "ss": strconv.FormatFloat(second, 'f', 6, 64)})
	out := ff.Input(src.input(), in).Get("v:0").
		Filter("scale", ff.Args{"160", "90"}).
		Output(filepath.Base(path), with(stillOptions(3), ff.KwArgs{"pix_fmt": "yuvj420p"}))
	_, err := t.ffmpeg(ctx, "taking a picture", command{dir: filepath.Dir(path), source: src, limits: encoding(plan.Width, plan.Height)}, out)
	return err
}
