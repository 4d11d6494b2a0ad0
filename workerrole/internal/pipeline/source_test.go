package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
	"github.com/cutroom/cutroom/workerrole/internal/media"
	"github.com/cutroom/cutroom/workerrole/internal/sandbox"
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

// pin is the version of a blob that is there now.
func pin(t testing.TB, blobs *blobstore.Store, blob string) engine.Blob {
	t.Helper()
	head, err := blobs.Head(t.Context(), engine.SourcesContainer, blob)
	if err != nil {
		t.Fatal(err)
	}
	return engine.Blob{Name: blob, ETag: head.ETag}
}

// opened is a remuxed copy that ffmpeg can read until ctx ends.
func opened(t testing.TB, ctx context.Context, blobs *blobstore.Store, from engine.Blob) ffmpeg.Source { //nolint:revive // t comes first
	t.Helper()
	whole, err := openCopy(ctx, blobs, from)
	if err != nil {
		t.Fatal(err)
	}
	source, err := serve(ctx, whole)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// A blob that is replaced after its version was noted is never processed:
// neither by who opens it later, nor by who had opened it before.
func TestReplacedSourceIsRefused(t *testing.T) {
	t.Parallel()
	account := azuritetest.Account(t)
	if err := account.Ensure(t.Context(), azstore.Names{Containers: []string{engine.SourcesContainer}}); err != nil {
		t.Fatal(err)
	}
	held, err := sandbox.Open(sandbox.Try)
	if err != nil {
		t.Fatal(err)
	}
	tool, err := ffmpeg.Open(t.Context(), held, "", "")
	if err != nil {
		t.Fatal(err)
	}
	blobs := blobstore.New(account)
	const blob = "x/source"
	put := func(path string) {
		t.Helper()
		if _, err := blobs.PutFile(t.Context(), engine.SourcesContainer, blob, path, ""); err != nil {
			t.Fatal(err)
		}
	}
	put(film(t, "red"))

	ctx, end := context.WithCancel(t.Context())
	defer end()
	pinned := pin(t, blobs, blob)
	before := opened(t, ctx, blobs, pinned)
	info, err := tool.Probe(ctx, before)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := media.Plan(info)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := media.EncodeChunk(ctx, tool, before, plan, 0, t.TempDir()); err != nil {
		t.Fatal(err)
	}

	unread := func() ffmpeg.Source { return opened(t, ctx, blobs, pin(t, blobs, blob)) } // nothing has read it yet
	late := unread()
	put(film(t, "blue"))
	refused := func(what string, err error) {
		t.Helper()
		var failure *engine.Failure
		if !errors.As(err, &failure) || failure.Code != engine.SourceChanged {
			t.Errorf("%s: %v, want %s", what, err, engine.SourceChanged)
		}
	}
	if again, err := tool.Probe(ctx, before); err != nil || !reflect.DeepEqual(again, info) {
		t.Errorf("what an attempt has read and keeps: %+v, %v, want %+v", again, err, info)
	}
	_, err = tool.Probe(ctx, late)
	refused("probe", err)
	_, err = openCopy(ctx, blobs, pinned)
	refused("open", err)

	late = unread()
	put(film(t, "green"))
	_, err = media.EncodeChunk(ctx, tool, late, plan, 0, t.TempDir())
	refused("chunk", err)
}

// sourceOf uploads bytes that differ from block to block, and lets them be read.
func sourceOf(t *testing.T, size int) (content []byte, url string, seen *downloads) {
	t.Helper()
	seen = new(downloads)
	account := azuritetest.AccountWith(t, func(cfg *azstore.Config) { cfg.Transport = seen })
	if err := account.Ensure(t.Context(), azstore.Names{Containers: []string{engine.SourcesContainer}}); err != nil {
		t.Fatal(err)
	}
	content = make([]byte, size)
	for i := range content {
		content[i] = byte(i>>12 + i>>4)
	}
	path := filepath.Join(t.TempDir(), "source")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	blobs := blobstore.New(account)
	if _, err := blobs.PutFile(t.Context(), engine.SourcesContainer, "x/source", path, ""); err != nil {
		t.Fatal(err)
	}
	return content, opened(t, t.Context(), blobs, pin(t, blobs, "x/source")).URL, seen
}

// get reads from a byte on, at most length bytes, and goes away, as ffmpeg does.
func get(ctx context.Context, url string, from, length int) ([]byte, error) {
	ctx, goAway := context.WithCancel(ctx)
	defer goAway()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	return io.ReadAll(io.LimitReader(res.Body, int64(length)))
}

// Readers at all places at once get the right bytes, also of a source that is larger
// than what is kept. No request is long, and each is read to its end when ffmpeg goes
// away: Azurite keeps a file open for each block of a reply that is not.
func TestSourcesAreReadInPieces(t *testing.T) {
	t.Parallel()
	content, url, seen := sourceOf(t, 2*kept+blockSize/2)
	var readers sync.WaitGroup
	for n := range 4 {
		readers.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(n)))
			for i := range 12 {
				from, length := random.IntN(len(content)), 1+random.IntN(kept)
				switch i {
				case 0:
					from, length = 0, len(content)
				case 1:
					from = len(content) - 1 - n
				}
				want := content[from:min(from+length, len(content))]
				if got, err := get(t.Context(), url, from, length); err != nil || !bytes.Equal(got, want) {
					t.Errorf("from byte %d: %d bytes, which differ from the %d of the source: %v", from, len(got), len(want), err)
				}
			}
		})
	}
	readers.Wait()
	azuritetest.Eventually(t, 10*time.Second, func() error {
		if asked, _, unread := seen.sum(); asked > blockSize || unread > 0 {
			return fmt.Errorf("a request asked for %d bytes, want at most %d; %d replies were not read to their end", asked, blockSize, unread)
		}
		return nil
	})
}

// ffmpeg that looks at a few places costs a few small requests, and the same places cost
// nothing the next time.
func TestLittleIsReadInVain(t *testing.T) {
	t.Parallel()
	content, url, seen := sourceOf(t, kept+1)
	look := func() {
		t.Helper()
		for _, from := range []int{0, len(content) - 1000, kept / 2} {
			if got, err := get(t.Context(), url, from, 1000); err != nil || len(got) == 0 {
				t.Fatalf("from byte %d: %d bytes, %v", from, len(got), err)
			}
		}
	}
	// What is in the sockets' buffers counts as read. How much that is, the system
	// decides.
	const bound = 3 << 20 // for three places
	look()
	_, first, _ := seen.sum()
	if first > bound {
		t.Errorf("%d bytes were read for a look at three places", first)
	}
	for range 5 {
		look()
	}
	if _, all, _ := seen.sum(); all > 2*first {
		t.Errorf("%d bytes were read for six looks, %d for the first", all, first)
	}
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

// sum is the most that one request asked for, what all did, and how many were not read
// to their end.
func (d *downloads) sum() (longest, all int64, unread int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.replies {
		longest = max(longest, r.asked)
		all += r.asked
		if r.left > 0 {
			unread++
		}
	}
	return longest, all, unread
}
