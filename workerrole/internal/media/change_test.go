package media_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/cutroom/cutroom/shared/testkit/mediatest"
	"github.com/cutroom/cutroom/workerrole/internal/media"
)

// A source whose pictures change their size and pixel format on the way, as in
// recordings of broadcasts and of windows, is encoded whole: every frame is there
// once, and shows what the source shows at that time, in its own shape.
func TestPicturesMayChange(t *testing.T) {
	t.Parallel()
	tool := tool(t)
	dir := t.TempDir()
	const seconds, rate = 6, 10
	var joined []byte
	for i, part := range []struct{ colour, size, format string }{{"black", "160x90", "yuv420p"}, {"white", "320x240", "yuv444p"}} {
		path := filepath.Join(dir, part.colour)
		mediatest.FFmpeg(t, []string{"-f", "lavfi", "-i", "color=" + part.colour + ":s=" + part.size + ":r=10:d=" + strconv.Itoa(seconds)},
			[]string{"-c:v", "libx264", "-pix_fmt", part.format, "-g", "20", "-output_ts_offset", strconv.Itoa(i * seconds), "-f", "mpegts", path})
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		joined = append(joined, data...)
	}
	stream := mediatest.Write(t, dir, "stream", joined)
	file := filepath.Join(dir, "file")
	mediatest.FFmpeg(t, []string{"-i", stream, "-c", "copy", "-f", "mp4", file})
	for name, path := range map[string]string{"mpegts": stream, "mp4": file} {
		src, info := probe(t, tool, path)
		plan, err := media.Plan(info)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		plan = manySeams(plan)
		e := encode(t, tool, src, plan)
		pictures := thumbs(t, "-i", e.joined[0], "-vf", "scale="+strconv.Itoa(thumbWidth)+":"+strconv.Itoa(thumbHeight)+",format=gray")
		if n := len(pictures); n < 2*seconds*rate-2 || n > 2*seconds*rate {
			t.Errorf("%s: %d frames, want %d, or two less where the parts meet", name, n, 2*seconds*rate)
		}
		for i, p := range pictures {
			middle := p[thumbWidth*thumbHeight/2+thumbWidth/2]
			if off := i - seconds*rate; off < -2 && middle > 60 || off > 1 && middle < 190 {
				t.Errorf("%s: frame %d has brightness %d", name, i, middle)
				break
			}
			if side := p[thumbWidth*thumbHeight/2]; i > seconds*rate+1 && side > 60 {
				t.Errorf("%s: frame %d has brightness %d beside a picture of another shape, want black", name, i, side)
				break
			}
		}
	}
}
