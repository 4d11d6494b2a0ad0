package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstorage"
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

// What ffmpeg reads is asked for in pieces, and a piece that was begun is read to
// its end when ffmpeg goes away: Azurite keeps a file open for each block of a reply
// that is not.
func TestSourcesAreReadInPieces(t *testing.T) {
	t.Parallel()
	var seen downloads
	account := azuritetest.AccountWith(t, func(cfg *azstorage.Config) { cfg.Transport = &seen })
	if err := account.Ensure(t.Context(), []string{video.SourcesContainer}, nil, nil); err != nil {
		t.Fatal(err)
	}
	content := make([]byte, 2*piece+piece/2)
	for i := range content {
		content[i] = byte(i >> 12)
	}
	path := filepath.Join(t.TempDir(), "source")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	blobs := blobstore.New(account)
	if err := blobs.PutFile(t.Context(), video.SourcesContainer, "x/source", path, blobstore.Options{}); err != nil {
		t.Fatal(err)
	}
	source, _, err := openSource(t.Context(), blobs, Pinned{Blob: "x/source"}, "")
	if err != nil {
		t.Fatal(err)
	}
	get := func(from, length int) []byte {
		t.Helper()
		ctx, goAway := context.WithCancel(t.Context())
		defer goAway()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, source.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		got, err := io.ReadAll(io.LimitReader(res.Body, int64(length)))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, from := range []int{0, 1000, piece, 2*piece + 1} {
		if got := get(from, len(content)); !bytes.Equal(got, content[from:]) {
			t.Errorf("from byte %d: %d bytes, which differ from the %d of the source", from, len(got), len(content)-from)
		}
		get(from, 100) // and ffmpeg goes away
	}
	azuritetest.Eventually(t, 10*time.Second, func() error {
		if asked, unread := seen.worst(); asked > piece || unread > 0 {
			return fmt.Errorf("a request asked for %d bytes, want at most %d; %d replies were not read to their end", asked, piece, unread)
		}
		return nil
	})
}

// downloads is a transport that notes how much each download is and was read.
type downloads struct {
	mu      sync.Mutex
	replies []*reply
}

type reply struct {
	io.ReadCloser
	mu          *sync.Mutex
	asked, left int64
}

// Do implements policy.Transporter.
func (d *downloads) Do(req *http.Request) (*http.Response, error) {
	res, err := http.DefaultClient.Do(req)
	if err == nil && req.Method == http.MethodGet && res.ContentLength > 0 {
		r := &reply{ReadCloser: res.Body, mu: &d.mu, asked: res.ContentLength, left: res.ContentLength}
		d.mu.Lock()
		d.replies = append(d.replies, r)
		d.mu.Unlock()
		res.Body = r
	}
	return res, err
}

func (r *reply) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left -= int64(n)
	return n, err
}

// worst is the most that one request asked for, and how many were not read to
// their end.
func (d *downloads) worst() (asked int64, unread int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.replies {
		asked = max(asked, r.asked)
		if r.left > 0 {
			unread++
		}
	}
	return asked, unread
}
