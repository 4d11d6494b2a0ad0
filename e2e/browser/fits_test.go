package browser_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
)

// TestFilmsFitTheirStage: a film of any shape, and with it the bar of controls at its
// bottom, lies within its stage, and the stage within the window, however low or narrow
// that is.
func TestFilmsFitTheirStage(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stack.Options{Workers: 1})
	user, tab := newUser(t, s), open(t)
	for _, shape := range []string{"320x180", "180x320", "240x240", "420x180"} {
		path := filepath.Join(t.TempDir(), shape+".mp4")
		cmd := exec.CommandContext(t.Context(), "ffmpeg", "-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=r=10:d=2:s="+shape,
			"-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", path)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("make a film: %v\n%s", err, out)
		}
		v := uploadedAndReady(t, user, client.NewVideo{Title: shape}, path)
		for _, page := range []string{"watch", "embed"} {
			visit(t, tab, s.BaseURL()+"/"+page+"/"+v.Id)
			playable(t, tab, page)
			for _, window := range [][2]int64{{1920, 1080}, {1366, 768}, {1280, 720}, {844, 390}, {390, 844}} {
				name := fmt.Sprintf("%s of %s in %d x %d", page, shape, window[0], window[1])
				if err := chromedp.Do(tab, chromedp.EmulateViewport(window[0], window[1])); err != nil {
					t.Fatal(err)
				}
				boxes := eval[[]float64](t, tab, `(() => { const player = document.getElementById('player').getBoundingClientRect(), stage = document.getElementById('player').parentElement.getBoundingClientRect();
					return [stage.left - player.left, stage.top - player.top, player.right - stage.right, player.bottom - stage.bottom, stage.height - innerHeight, stage.width - innerWidth]; })()`)
				for i, beyond := range []string{"left of the stage", "above the stage", "right of the stage", "below the stage", "more than the window's height", "more than the window's width"} {
					if boxes[i] > 0.5 {
						t.Errorf("%s: %.0f px %s", name, boxes[i], beyond)
					}
				}
				shoot(t, tab, "fits-"+page+"-"+shape+fmt.Sprintf("-%d", window[0]))
			}
		}
	}
}
