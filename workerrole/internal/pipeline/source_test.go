package pipeline

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cutroom/cutroom/shared/azuritetest"
	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
	"github.com/cutroom/cutroom/workerrole/internal/media"
)

// film makes a short video of one colour.
func film(t *testing.T, colour string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), colour+".mp4")
	out, err := exec.CommandContext(t.Context(), "ffmpeg", "-nostdin", "-v", "error", "-f", "lavfi", "-i", "color="+colour+":s=64x64:r=10:d=2",
		"-c:v", "libx264", "-pix_fmt", "yuv420p", path).CombinedOutput()
	if err != nil {
		t.Fatalf("make a film: %v\n%s", err, out)
	}
	return path
}

// A blob that is replaced after its version was noted is never processed:
// neither by who opens it later, nor by who had opened it before.
func TestReplacedSourceIsRefused(t *testing.T) {
	t.Parallel()
	account := azuritetest.Account(t)
	if err := account.Ensure(t.Context(), []string{video.SourcesContainer}, nil, nil); err != nil {
		t.Fatal(err)
	}
	tool, err := ffmpeg.Open(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	blobs := blobstore.New(account)
	const blob = "x/source"
	put := func(path string) {
		t.Helper()
		if err := blobs.PutFile(t.Context(), video.SourcesContainer, blob, path, blobstore.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	put(film(t, "red"))

	ctx, end := context.WithCancel(t.Context())
	defer end()
	before, pinned, err := openSource(ctx, blobs, Pinned{Blob: blob}, "")
	if err != nil || pinned.ETag == "" {
		t.Fatalf("open %+v: %v", pinned, err)
	}
	info, err := tool.Probe(ctx, before)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := media.Plan(info, media.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := media.EncodeChunk(ctx, tool, before, plan, 0, t.TempDir(), nil); err != nil {
		t.Fatal(err)
	}

	put(film(t, "blue"))
	refused := func(what string, err error) {
		t.Helper()
		var failure *video.Failure
		if !errors.As(err, &failure) || failure.Code != video.SourceChanged {
			t.Errorf("%s: %v, want %s", what, err, video.SourceChanged)
		}
	}
	_, err = tool.Probe(ctx, before)
	refused("probe", err)
	again, _, err := openSource(ctx, blobs, Pinned{Blob: blob}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tool.Probe(ctx, again); err != nil {
		t.Errorf("a source that is not pinned, as of an older release: %v", err)
	}
	_, _, err = openSource(ctx, blobs, pinned, "")
	refused("open", err)

	put(film(t, "green")) // while one is open that nothing has read yet
	_, err = media.EncodeChunk(ctx, tool, again, plan, 0, t.TempDir(), nil)
	refused("chunk", err)
}
