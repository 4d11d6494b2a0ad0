package blobstore_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

const box = "media"

func open(t *testing.T, change func(*azstore.Config)) *blobstore.Store {
	t.Helper()
	a := azuritetest.AccountWith(t, change)
	if err := a.Ensure(t.Context(), azstore.Names{Containers: []string{box}}); err != nil {
		t.Fatal(err)
	}
	return blobstore.New(a)
}

func plain(*azstore.Config) {}

func noise(size int) []byte {
	data := make([]byte, size)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(data)
	return data
}

func TestPutAndGet(t *testing.T) {
	t.Parallel()
	a := azuritetest.AccountWith(t, plain)
	if err := a.Ensure(t.Context(), azstore.Names{Containers: []string{box}}); err != nil {
		t.Fatal(err)
	}
	s := blobstore.New(a)
	want := noise(100_000)
	etag, err := s.Put(t.Context(), box, "a/b", want, blobstore.Options{ContentType: "video/mp4"})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := a.Container(box).NewBlobClient("a/b").GetProperties(t.Context(), nil); err != nil || *p.ContentType != "video/mp4" {
		t.Errorf("content type of what was put: %v, %v", p.ContentType, err)
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
	if err != nil || !bytes.Equal(part, want[1000:1050]) || info.Size != 50 {
		t.Errorf("range: %d bytes, %+v, %v", len(part), info, err)
	}
	if _, _, err := s.Open(t.Context(), box, "a/b", blobstore.Range{}, `"0x1"`); !errors.Is(err, blobstore.ErrChanged) {
		t.Errorf("open of another version: %v, want ErrChanged", err)
	}
	if _, err := s.Get(t.Context(), box, "a/c"); !errors.Is(err, blobstore.ErrNotFound) {
		t.Errorf("Get of nothing: %v, want ErrNotFound", err)
	}
	if _, err := s.Put(t.Context(), box, "a/b", want, blobstore.Options{IfNoneMatch: true}); !errors.Is(err, blobstore.ErrExists) {
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
	s := open(t, func(c *azstore.Config) { c.Transport = f })
	data := noise(5000)
	if _, err := s.Put(t.Context(), box, "x", data, blobstore.Options{}); !errors.Is(err, blobstore.ErrCorrupt) {
		t.Errorf("Put: %v, want ErrCorrupt", err)
	}
	for _, size := range []int{5000, 2*blobstore.BlockSize + 1} { // at once, and in blocks
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, noise(size), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.PutFile(t.Context(), box, "x", path, ""); !errors.Is(err, blobstore.ErrCorrupt) {
			t.Errorf("PutFile of %d bytes: %v, want ErrCorrupt", size, err)
		}
	}
	if f.flipped.Load() < 3 {
		t.Errorf("%d uploads were corrupted, want at least 3", f.flipped.Load())
	}
}

func isBlock(r *http.Request) bool { return r.URL.Query().Get("comp") == "block" }

// TestPutFileAgain: after a call that broke off the same call writes the whole file.
func TestPutFileAgain(t *testing.T) {
	t.Parallel()
	var sent, refuseFrom atomic.Int32
	refuseFrom.Store(4)
	faults := &inject.Transport{Choose: func(r *http.Request) inject.Fault {
		if isBlock(r) && sent.Add(1) >= refuseFrom.Load() {
			return inject.Reset
		}
		return inject.None
	}}
	s := open(t, func(c *azstore.Config) { c.Transport = faults })
	const blocks = 5
	want := noise((blocks-1)*blobstore.BlockSize + 12345)
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutFile(azstore.WithoutRetry(t.Context()), box, "big", path, ""); !errors.Is(err, inject.ErrReset) {
		t.Fatalf("the first call was not interrupted: %v", err)
	}
	sent.Store(0)
	refuseFrom.Store(1000)
	etag, err := s.PutFile(t.Context(), box, "big", path, "")
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Get(t.Context(), box, "big")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("content differs: %d bytes, %v", len(got), err)
	}
	info, err := s.Head(t.Context(), box, "big")
	if sum := md5.Sum(want); err != nil || !bytes.Equal(info.MD5, sum[:]) || info.ETag != etag {
		t.Errorf("MD5 of the whole file: %x in version %s, want %s; %v", info.MD5, info.ETag, etag, err)
	}
}

func TestDeletePrefixRemovesStagedBlocksToo(t *testing.T) {
	t.Parallel()
	a := azuritetest.AccountWith(t, plain)
	if err := a.Ensure(t.Context(), azstore.Names{Containers: []string{box}}); err != nil {
		t.Fatal(err)
	}
	s := blobstore.New(a)
	for _, name := range []string{"v1/a", "v1/b", "v2/a"} {
		if _, err := s.Put(t.Context(), box, name, []byte("x"), blobstore.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	staged := a.Container(box).NewBlockBlobClient("v1/staged")
	if _, err := staged.StageBlock(t.Context(), "AAAA", streaming.NopCloser(strings.NewReader("x")), nil); err != nil {
		t.Fatal(err)
	}
	for range 2 { // safe to repeat
		if err := s.DeletePrefix(t.Context(), box, "v1/"); err != nil {
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
	if blocks, err := staged.GetBlockList(t.Context(), blockblob.BlockListTypeUncommitted, nil); !azstore.IsNotFound(err) {
		t.Errorf("staged blocks left: %+v, %v", blocks.BlockList, err)
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

// Of several one acts at a time, and none so long that its lease could end. A container that is
// missing is made.
func TestExclusivelyIsOneAtATime(t *testing.T) {
	t.Parallel()
	s := blobstore.New(azuritetest.Account(t))
	var acting, most atomic.Int32
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			err := s.Exclusively(t.Context(), box, "duty", func(ctx context.Context) error {
				most.Store(max(most.Load(), acting.Add(1)))
				defer acting.Add(-1)
				if end, bounded := ctx.Deadline(); !bounded || time.Until(end) > blobstore.MinLease-2*time.Second {
					t.Errorf("it may act until %v", end)
				}
				return azstore.Sleep(ctx, 50*time.Millisecond)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if most.Load() != 1 {
		t.Errorf("%d at once", most.Load())
	}
	failed := errors.New("failed")
	if err := s.Exclusively(t.Context(), box, "duty", func(context.Context) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("err = %v, want that of the call", err)
	}
}

func TestLostRepliesDoNoHarm(t *testing.T) {
	t.Parallel()
	content := noise(3 * blobstore.BlockSize)
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	query := func(key, value string) func(*http.Request) bool {
		return func(r *http.Request) bool {
			return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/x") && r.URL.Query().Get(key) == value
		}
	}
	for name, c := range map[string]struct {
		lose func(*http.Request) bool
		do   func(*blobstore.Store, *testing.T) error
	}{
		"plain put": {query("comp", ""), func(s *blobstore.Store, t *testing.T) error {
			_, err := s.Put(t.Context(), box, "x", []byte("data"), blobstore.Options{})
			return err
		}},
		"first put": {query("comp", ""), func(s *blobstore.Store, t *testing.T) error {
			if _, err := s.Put(t.Context(), box, "x", []byte("data"), blobstore.Options{IfNoneMatch: true}); !errors.Is(err, blobstore.ErrExists) {
				return fmt.Errorf("%v, want ErrExists, which the caller looks into", err)
			}
			content, err := s.Get(t.Context(), box, "x")
			if string(content) != "data" {
				return fmt.Errorf("%q is there: %w", content, err)
			}
			return nil
		}},
		"block": {query("comp", "block"), func(s *blobstore.Store, t *testing.T) error {
			_, err := s.PutFile(t.Context(), box, "x", path, "")
			return err
		}},
		"commit": {query("comp", "blocklist"), func(s *blobstore.Store, t *testing.T) error {
			_, err := s.PutFile(t.Context(), box, "x", path, "")
			return err
		}},
		"delete": {func(r *http.Request) bool {
			return r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/x")
		}, func(s *blobstore.Store, t *testing.T) error {
			if _, err := s.Put(t.Context(), box, "x", []byte("data"), blobstore.Options{}); err != nil {
				return err
			}
			_, err := s.Delete(t.Context(), box, "x", "")
			return err
		}},
		"acquire lease": {leaseAction("acquire"), func(s *blobstore.Store, t *testing.T) error {
			if _, err := s.Put(t.Context(), box, "x", []byte(""), blobstore.Options{}); err != nil {
				return err
			}
			l, err := s.AcquireLease(t.Context(), box, "x", blobstore.MinLease)
			if err != nil {
				return err
			}
			return l.Renew(t.Context())
		}},
		"release lease": {leaseAction("release"), func(s *blobstore.Store, t *testing.T) error {
			l, err := s.AcquireLease(t.Context(), box, "x", blobstore.MinLease)
			if err != nil {
				return err
			}
			return l.Release(t.Context())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults := &inject.Transport{Choose: inject.Once(inject.LostReply, 1, c.lose)}
			s := open(t, func(cfg *azstore.Config) { cfg.Transport = faults })
			if err := c.do(s, t); err != nil {
				t.Error(err)
			}
			if faults.Fired() != 1 {
				t.Errorf("%d faults fired, want 1", faults.Fired())
			}
		})
	}
}

// leaseAction matches a request by a header that the SDK does not canonicalise.
func leaseAction(want string) func(*http.Request) bool {
	const header = "x-ms-lease-action"
	return func(r *http.Request) bool { return slices.Equal(map[string][]string(r.Header)[header], []string{want}) }
}

// cutter breaks every download after some bytes, as a lost connection does.
type cutter struct {
	after int64
	cuts  atomic.Int32
}

func (c *cutter) Do(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultClient.Do(r)
	if err == nil && r.Method == http.MethodGet && resp.StatusCode < 300 && resp.ContentLength > c.after {
		c.cuts.Add(1)
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(io.LimitReader(resp.Body, c.after), broken{}), resp.Body}
	}
	return resp, err
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, inject.ErrReset }

func TestReadResumesAfterBrokenConnections(t *testing.T) {
	t.Parallel()
	c := &cutter{after: 300_000}
	s := open(t, func(cfg *azstore.Config) { cfg.Transport = c })
	want := noise(1_000_000)
	if _, err := s.Put(t.Context(), box, "x", want, blobstore.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []blobstore.Range{{}, {Offset: 5}, {Offset: 100, Length: 700_000}} {
		body, _, err := s.Open(t.Context(), box, "x", r, "")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(body)
		_ = body.Close()
		end := int64(len(want))
		if r.Length > 0 {
			end = r.Offset + r.Length
		}
		if err != nil || !bytes.Equal(got, want[r.Offset:end]) {
			t.Errorf("range %+v: %d bytes, %v", r, len(got), err)
		}
	}
	if c.cuts.Load() < 6 {
		t.Errorf("%d cuts, want at least 6", c.cuts.Load())
	}
}

// silence answers the first download with some bytes and then nothing.
type silence struct{ n atomic.Int32 }

func (q *silence) Do(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultClient.Do(r)
	if err == nil && r.Method == http.MethodGet && resp.StatusCode < 300 && q.n.Add(1) == 1 {
		resp.Body = &silentBody{Reader: io.LimitReader(resp.Body, 100), inner: resp.Body, closed: make(chan struct{})}
	}
	return resp, err
}

type silentBody struct {
	io.Reader
	inner  io.Closer
	once   sync.Once
	closed chan struct{}
}

func (b *silentBody) Read(p []byte) (int, error) {
	if n, _ := b.Reader.Read(p); n > 0 {
		return n, nil
	}
	<-b.closed
	return 0, net.ErrClosed
}

func (b *silentBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.inner.Close()
}

func TestSilentDownloadIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	q := &silence{}
	s := open(t, func(cfg *azstore.Config) {
		cfg.Transport, cfg.Retry = q, azstore.DefaultRetry
		cfg.Retry.TryTimeout = time.Second
	})
	want := noise(1000)
	if _, err := s.Put(t.Context(), box, "x", want, blobstore.Options{}); err != nil {
		t.Fatal(err)
	}
	body, _, err := s.Open(t.Context(), box, "x", blobstore.Range{}, "")
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(body)
	_ = body.Close()
	if err != nil || !bytes.Equal(got, want) || q.n.Load() != 2 {
		t.Errorf("%d bytes in %d requests, %v", len(got), q.n.Load(), err)
	}
}

// A reader never joins two versions of a blob.
func TestReadRefusesANewVersion(t *testing.T) {
	t.Parallel()
	s := open(t, func(cfg *azstore.Config) { cfg.Transport = &cutter{after: 100} })
	put := func() {
		if _, err := s.Put(t.Context(), box, "x", noise(1000), blobstore.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	put()
	body, _, err := s.Open(t.Context(), box, "x", blobstore.Range{}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = body.Close() }()
	put()
	if _, err := io.ReadAll(body); !errors.Is(err, blobstore.ErrChanged) {
		t.Errorf("reading on after a change: %v, want ErrChanged", err)
	}
}

// downFlipper changes one byte of every download.
type downFlipper struct{ flips atomic.Int32 }

func (f *downFlipper) Do(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultClient.Do(r)
	if err != nil || r.Method != http.MethodGet || resp.StatusCode >= 300 || r.URL.Query().Has("comp") {
		return resp, err
	}
	data, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err == nil && len(data) > 0 {
		data[0] ^= 1
		f.flips.Add(1)
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return resp, err
}

func TestCorruptionOnTheWayDownIsSeen(t *testing.T) {
	t.Parallel()
	f := &downFlipper{}
	s := open(t, func(cfg *azstore.Config) { cfg.Transport = f })
	if _, err := s.Put(t.Context(), box, "x", noise(blobstore.BlockSize+5), blobstore.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), box, "x"); !errors.Is(err, blobstore.ErrCorrupt) {
		t.Errorf("Get: %v, want ErrCorrupt", err)
	}
	if f.flips.Load() == 0 {
		t.Error("nothing was flipped")
	}
}

func TestLostLeaseIsSeen(t *testing.T) {
	t.Parallel()
	s := open(t, plain)
	l, err := s.AcquireLease(t.Context(), box, "leader", blobstore.MinLease)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Renew(t.Context()); !errors.Is(err, blobstore.ErrLeaseLost) {
		t.Errorf("Renew after Release: %v, want ErrLeaseLost", err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("a second Release: %v", err)
	}
}
