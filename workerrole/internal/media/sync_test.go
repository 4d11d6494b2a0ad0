package media_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/cutroom/cutroom/shared/testkit/mediatest"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/media"
)

// Flashes and beeps that happen together in the source do so in what we make,
// at every seam and at the end as at the start.
func TestSoundStaysWithPicture(t *testing.T) {
	t.Parallel()
	tool := tool(t)
	pair := flashBeep("160x90", "30", 10)
	for name, options := range map[string][]string{
		"mp4":     append(mediatest.X264(90), "-c:a", "aac", "-f", "mp4"),
		"mpegts":  append(mediatest.X264(45), "-bf", "2", "-c:a", "aac", "-f", "mpegts"),
		"webm":    {"-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-c:a", "libopus", "-f", "webm"},
		"mpeg-ps": {"-c:v", "mpeg2video", "-b:v", "1M", "-c:a", "mp2", "-f", "vob"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "clip")
			mediatest.FFmpeg(t, pair, options, []string{path})
			src, info := probe(t, tool, path)
			plan, err := media.Plan(info)
			if err != nil {
				t.Fatal(err)
			}
			e := encode(t, tool, src, manySeams(plan))
			download := filepath.Join(t.TempDir(), "download.mp4")
			if err := tool.Mux(t.Context(), e.joined[0], e.audio, download); err != nil {
				t.Fatal(err)
			}
			in := offsets(t, src.URL, src.URL, plan.FPS, "-start_at_zero")
			for what, out := range map[string][]float64{
				"stream":   offsets(t, e.joined[0], e.audio, plan.FPS),
				"download": offsets(t, download, download, plan.FPS),
			} {
				if len(out) != len(in) || len(out) < 9 {
					t.Fatalf("%s: %d flashes with beeps, the source has %d", what, len(out), len(in))
				}
				for i := range out {
					if d := math.Abs(out[i] - in[i]); d > 0.005 {
						t.Errorf("%s: second %d: sound is off by %.1f ms", what, i, 1000*d)
					}
				}
			}
		})
	}
}

// offsets returns, for each second after the first, when the beep starts minus
// when the flash does.
func offsets(t *testing.T, videoPath, audioPath string, fps video.Rational, options ...string) []float64 {
	t.Helper()
	frames := thumbs(t, append(options, "-i", videoPath, "-filter_complex",
		"[0:V:0]fps="+fps.String()+":start_time=0,scale="+strconv.Itoa(thumbWidth)+":"+strconv.Itoa(thumbHeight)+",format=gray")...)
	var flashes []float64
	bright := func(i int) bool { return frames[i][thumbWidth*thumbHeight/2] > 128 }
	for i := 1; i < len(frames); i++ {
		if bright(i) && !bright(i-1) {
			flashes = append(flashes, fps.Seconds(int64(i)))
		}
	}
	args := append([]string{"-nostdin", "-v", "fatal", "-copyts"}, options...)
	raw := output(t, "ffmpeg", append(args, "-i", audioPath, "-map", "0:a:0",
		"-af", "aresample=48000:async=1:first_pts=0", "-ac", "1", "-f", "s16le", "-")...)
	var beeps []float64
	quietSince := -1 << 20
	for i := 0; i+1 < len(raw); i += 2 {
		if s := int16(binary.LittleEndian.Uint16(raw[i:])); s > 8000 || s < -8000 {
			if n := i / 2; n-quietSince > 48000/2 {
				beeps = append(beeps, float64(n)/48000)
			}
			quietSince = i / 2
		}
	}
	var list []float64
	for _, f := range flashes {
		for _, b := range beeps {
			if math.Abs(b-f) < 0.3 {
				list = append(list, b-f)
			}
		}
	}
	return list
}

// flashBeep is a pair of lavfi sources, video and audio: each second starts
// with a white flash and a beep of 0.1 s.
func flashBeep(size, rate string, seconds int) []string {
	return []string{
		"-f", "lavfi", "-i", fmt.Sprintf("color=black:s=%s:r=%s:d=%d,drawbox=c=white:t=fill:enable='lt(mod(t+0.001,1),0.1)'", size, rate, seconds),
		"-f", "lavfi", "-i", fmt.Sprintf("aevalsrc='0.8*cos(2*PI*1000*t)*lt(mod(t,1),0.1)':s=48000:d=%d", seconds),
	}
}
