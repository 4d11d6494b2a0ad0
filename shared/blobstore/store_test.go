package blobstore_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/azuritetest"
	"github.com/cutroom/cutroom/shared/blobstore"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

const box = "media"

func open(t *testing.T, change func(*azstorage.Config)) *blobstore.Store {
	t.Helper()
	a := azuritetest.AccountWith(t, change)
	if err := a.Ensure(azstorage.WithRetry(t.Context(), azstorage.DefaultRetry), []string{box}, nil, nil); err != nil {
		t.Fatal(err)
	}
	return blobstore.New(a)
}

func plain(*azstorage.Config) {}

func noise(size int) []byte {
	data := make([]byte, size)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(data)
	return data
}

func TestPutAndGet(t *testing.T) {
	t.Parallel()
	s := open(t, plain)
	want := noise(100_000)
	etag, err := s.Put(t.Context(), box, "a/b", bytes.NewReader(want), int64(len(want)), blobstore.Options{ContentType: "video/mp4"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Get(t.Context(), box, "a/b")
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("Get: %d bytes, %v", len(got), err)
	}
	body, info, err := s.Open(t.Context(), box, "a/b", blobstore.Range{Offset: 1000, Length: 50}, etag)
	if err != nil {
		t.Fatal(err)
	}
	part, err := io.ReadAll(body)
	_ = body.Close()
	if err != nil || !bytes.Equal(part, want[1000:1050]) || info.Size != 100_000 || info.ContentType != "video/mp4" {
		t.Errorf("range: %d bytes, %+v, %v", len(part), info, err)
	}
	if _, _, err := s.Open(t.Context(), box, "a/b", blobstore.Range{}, `"0x1"`); !errors.Is(err, blobstore.ErrChanged) {
		t.Errorf("open of another version: %v, want ErrChanged", err)
	}
	if _, err := s.Get(t.Context(), box, "a/c"); !errors.Is(err, blobstore.ErrNotFound) {
		t.Errorf("Get of nothing: %v, want ErrNotFound", err)
	}
	if _, err := s.Put(t.Context(), box, "a/b", bytes.NewReader(want), int64(len(want)), blobstore.Options{IfNoneMatch: true}); !errors.Is(err, blobstore.ErrExists) {
		t.Errorf("Put over a blob: %v, want ErrExists", err)
	}
}

// flipper changes one byte of every upload on its way (Q12).
type flipper struct{ flipped atomic.Int32 }

func (f *flipper) Do(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut && r.Body != nil && r.ContentLength > 10 {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		data[10] ^= 1
		f.flipped.Add(1)
		r.Body = io.NopCloser(bytes.NewReader(data))
	}
	return http.DefaultClient.Do(r)
}

func TestCorruptionOnTheWayIsRefused(t *testing.T) {
	t.Parallel()
	f := &flipper{}
	s := open(t, func(c *azstorage.Config) { c.Transport = f })
	data := noise(5000)
	if _, err := s.Put(t.Context(), box, "x", bytes.NewReader(data), 5000, blobstore.Options{}); !errors.Is(err, blobstore.ErrCorrupt) {
		t.Errorf("Put: %v, want ErrCorrupt", err)
	}
	if err := s.Stage(t.Context(), box, "x", 0, data); !errors.Is(err, blobstore.ErrCorrupt) {
		t.Errorf("Stage: %v, want ErrCorrupt", err)
	}
	if f.flipped.Load() < 2 {
		t.Errorf("%d uploads were corrupted, want at least 2", f.flipped.Load())
	}
}

func TestLostReplyOfAFirstPutIsNoConflict(t *testing.T) {
	t.Parallel()
	faults := &azuritetest.Faults{Choose: azuritetest.Once(azuritetest.LostReply, 1, func(r *http.Request) bool {
		return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/once")
	})}
	s := open(t, func(c *azstorage.Config) { c.Transport = faults })
	if _, err := s.Put(t.Context(), box, "once", strings.NewReader("data"), 4, blobstore.Options{IfNoneMatch: true}); err != nil {
		t.Errorf("Put whose reply was lost: %v", err)
	}
	if faults.Fired() != 1 {
		t.Errorf("%d faults fired, want 1", faults.Fired())
	}
}

func TestPutFileResumes(t *testing.T) {
	t.Parallel()
	var staged atomic.Int32
	count := &azuritetest.Faults{Choose: func(r *http.Request) azuritetest.Fault {
		if r.URL.Query().Get("comp") == "block" {
			staged.Add(1)
		}
		return azuritetest.None
	}}
	s := open(t, func(c *azstorage.Config) { c.Transport = count })
	want := noise(3*blobstore.BlockSize + 12345)
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 2 { // an earlier call was killed here
		if err := s.Stage(t.Context(), box, "big", i, want[i*blobstore.BlockSize:(i+1)*blobstore.BlockSize]); err != nil {
			t.Fatal(err)
		}
	}
	staged.Store(0)
	if err := s.PutFile(t.Context(), box, "big", path, blobstore.Options{}); err != nil {
		t.Fatal(err)
	}
	if n := staged.Load(); n != 2 {
		t.Errorf("%d blocks were sent, want the 2 that were missing", n)
	}
	got, err := s.Get(t.Context(), box, "big")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("content differs: %d bytes, %v", len(got), err)
	}
}

func TestPutStream(t *testing.T) {
	t.Parallel()
	s := open(t, plain)
	for _, size := range []int{0, 1, blobstore.BlockSize, 2*blobstore.BlockSize + 7} {
		want := noise(size)
		n, err := s.PutStream(t.Context(), box, "stream", io.MultiReader(bytes.NewReader(want)), blobstore.Options{})
		if err != nil || n != int64(size) {
			t.Fatalf("PutStream of %d bytes = %d, %v", size, n, err)
		}
		if got, err := s.Get(t.Context(), box, "stream"); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes came back as %d, %v", size, len(got), err)
		}
	}
	_, err := s.PutStream(t.Context(), box, "huge", bytes.NewReader(noise(100)), blobstore.Options{MaxSize: 99})
	if !errors.Is(err, blobstore.ErrTooLarge) {
		t.Errorf("one byte too many: %v, want ErrTooLarge", err)
	}
	if _, err := s.Head(t.Context(), box, "huge"); !errors.Is(err, blobstore.ErrNotFound) {
		t.Errorf("a refused stream left a blob: %v", err)
	}
}

func TestDeletePrefixRemovesStagedBlocksToo(t *testing.T) {
	t.Parallel()
	s := open(t, plain)
	for _, name := range []string{"v1/a", "v1/b", "v2/a"} {
		if _, err := s.Put(t.Context(), box, name, strings.NewReader("x"), 1, blobstore.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Stage(t.Context(), box, "v1/staged", 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // safe to repeat
		if _, err := s.DeletePrefix(t.Context(), box, "v1/"); err != nil {
			t.Fatal(err)
		}
	}
	var left []string
	for b, err := range s.List(t.Context(), box, "") {
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, b.Name)
	}
	if len(left) != 1 || left[0] != "v2/a" {
		t.Errorf("left: %v, want only v2/a", left)
	}
	if blocks, err := s.StagedBlocks(t.Context(), box, "v1/staged"); err != nil || len(blocks) != 0 {
		t.Errorf("staged blocks left: %v, %v", blocks, err)
	}
}

func TestLease(t *testing.T) {
	t.Parallel()
	s := open(t, plain)
	first, err := s.AcquireLease(t.Context(), box, "leader", 15*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.AcquireLease(t.Context(), box, "leader", 15*time.Second); !errors.Is(err, blobstore.ErrLeaseTaken) {
		t.Errorf("second lease: %v, want ErrLeaseTaken", err)
	}
	if err := first.Renew(t.Context()); err != nil {
		t.Error(err)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Error(err)
	}
	second, err := s.AcquireLease(t.Context(), box, "leader", 15*time.Second)
	if err != nil {
		t.Fatalf("lease after release: %v", err)
	}
	_ = second.Release(t.Context())
}
