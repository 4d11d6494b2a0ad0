package papers_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
)

// An upload that is there already is found by a key made of what it is (synthetic
// keys, S1): the same file by its bytes, the same pictures in another container by
// how they look. Private videos are not told.
func TestUploadThatIsThereAlready(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts the whole system and runs ffmpeg")
	}
	t.Parallel()
	s := stacktest.Start(t, stack.Options{Workers: 1})
	user, err := journey.New(s.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(user.Close)
	dir := t.TempDir()
	clip := func(name string, args ...string) string {
		path := filepath.Join(dir, name)
		cmd := exec.CommandContext(t.Context(), "ffmpeg", append(append([]string{"-nostdin", "-v", "error"}, args...), path)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("make %s: %v\n%s", name, err, out)
		}
		return path
	}
	film := clip("film.mp4", "-f", "lavfi", "-i", "mandelbrot=s=320x180:r=25", "-t", "4", "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p")
	remuxed := clip("remuxed.mkv", "-i", film, "-c", "copy")
	other := clip("other.mp4", "-f", "lavfi", "-i", "testsrc2=s=320x180:r=25:d=4", "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p")
	secret := clip("secret.mp4", "-f", "lavfi", "-i", "smptebars=s=320x180:r=25:d=4", "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p")

	upload := func(path string, visibility client.Visibility) client.Video {
		v, err := user.Announce(t.Context(), client.NewVideo{Title: filepath.Base(path), Visibility: &visibility})
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = file.Close() }()
		info, err := file.Stat()
		if err == nil {
			err = user.Put(t.Context(), v.Id, file, info.Size())
		}
		if err == nil {
			v, err = user.Await(t.Context(), v.Id, func(v client.Video) bool { return digestOf(v) != nil })
		}
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	fact := func(v client.Video, name string) string {
		text, _ := (*digestOf(v).Facts)[name].(string)
		return text
	}
	first := upload(film, client.Public)
	for _, c := range []struct {
		path, sameAs, looksLike string
		visibility              client.Visibility
	}{
		{film, first.Id, first.Id, client.Public},
		{remuxed, "", first.Id, client.Public},
		{other, "", "", client.Public},
		{secret, "", "", client.Private},
		{secret, "", "", client.Public}, // the first of it is private
	} {
		v := upload(c.path, c.visibility)
		if got := fact(v, "sameAs"); got != c.sameAs {
			t.Errorf("%s is the same as %q, want %q", v.Title, got, c.sameAs)
		}
		if got := fact(v, "looksLike"); got != c.looksLike {
			t.Errorf("%s looks like %q, want %q", v.Title, got, c.looksLike)
		}
	}
}

// digestOf returns what step digest made of a video, or nil: it runs when the video is ready.
func digestOf(v client.Video) *client.Made {
	if v.Made != nil {
		for _, m := range *v.Made {
			if m.Step == "digest" && m.Facts != nil {
				return &m
			}
		}
	}
	return nil
}
