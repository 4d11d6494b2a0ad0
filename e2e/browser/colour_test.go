package browser_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
)

// colourShown is the colour in the middle of what the player shows half a second into the
// film.
const colourShown = `(async () => {
  const player = document.getElementById('player');
  player.muted = true;
  player.pause();
  const there = new Promise((resolve) => player.addEventListener('seeked', resolve, { once: true }));
  player.currentTime = 0.5;
  await there;
  const pen = Object.assign(document.createElement('canvas'), { width: 1, height: 1 }).getContext('2d');
  pen.drawImage(player, player.videoWidth / 2, player.videoHeight / 2, 1, 1, 0, 0, 1, 1);
  return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
})()`

// TestColoursAreThoseOfTheFilm: however a film says what its numbers mean, Chromium shows
// the colour that was filmed, within 3 of 255.
func TestColoursAreThoseOfTheFilm(t *testing.T) {
	t.Parallel()
	filmed := []int{200, 40, 90}
	x264 := func(matrix, primaries, levels, filter string) []string {
		return []string{"-vf", filter + ",format=yuv420p", "-c:v", "libx264", "-preset", "ultrafast", "-f", "mp4",
			"-colorspace", matrix, "-color_primaries", primaries, "-color_trc", "bt709", "-color_range", levels}
	}
	films := map[string][]string{
		"RGB":           {"-c:v", "png", "-f", "mov"},
		"BT.2020, SDR":  x264("bt2020nc", "bt2020", "tv", "zscale=pin=709:tin=709:min=gbr:rin=full:p=2020:t=709:m=2020_ncl:r=limited"),
		"Motion JPEG":   {"-vf", "scale=out_color_matrix=bt601:out_range=pc,format=yuvj420p", "-c:v", "mjpeg", "-q:v", "2", "-f", "mov"},
		"BT.709, 4:4:4": {"-vf", "scale=out_color_matrix=bt709:out_range=tv,format=yuv444p", "-c:v", "libx264", "-preset", "ultrafast", "-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709", "-color_range", "tv", "-f", "matroska"},
	}
	for _, matrix := range []string{"bt709", "smpte170m"} {
		for _, levels := range []string{"tv", "pc"} {
			films[matrix+", "+levels] = x264(matrix, "bt709", levels, fmt.Sprintf("scale=out_color_matrix=%s:out_range=%s", matrix, levels))
		}
	}
	s := stacktest.Start(t, stack.Options{Workers: 1})
	user, tab := newUser(t, s), open(t)
	for name, args := range films {
		path := filepath.Join(t.TempDir(), "film")
		args = append([]string{"-nostdin", "-v", "error", "-f", "lavfi", "-i", "color=0xC8285A:s=320x180:r=10:d=2,format=rgb24"}, append(args, path)...)
		if out, err := exec.CommandContext(t.Context(), "ffmpeg", args...).CombinedOutput(); err != nil {
			t.Fatalf("make a film, %s: %v\n%s", name, err, out)
		}
		v := uploadedAndReady(t, user, client.NewVideo{Title: name}, path)
		visit(t, tab, s.BaseURL()+"/watch/"+v.Id)
		playable(t, tab, "watch")
		eval[any](t, tab, `(() => { const p = document.getElementById('player'); p.muted = true; return p.play(); })() ?? null`)
		shown := eval[[]int](t, tab, colourShown)
		for i := range filmed {
			if off := shown[i] - filmed[i]; off > 3 || off < -3 {
				t.Errorf("%s: Chromium shows %v, want %v", name, shown, filmed)
				break
			}
		}
		t.Logf("%s: %v", name, shown)
	}
}
