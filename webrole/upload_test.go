package main

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azuritetest"
	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

func sum(content []byte) string {
	s := md5.Sum(content)
	return base64.StdEncoding.EncodeToString(s[:])
}

// TestPutContent streams a file of several blocks through the web role (Q12).
func TestPutContent(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	content := movie(2*blobstore.BlockSize + 12_345)
	v := s.create(map[string]any{"sizeBytes": len(content)})
	path := "/videos/" + v.Id + "/content"

	s.call(http.MethodPut, path, content[:100]).want(t, 400, "size_mismatch")
	s.call(http.MethodPut, path, content, "Content-MD5", "AAAA").want(t, 400, "invalid_checksum")
	s.call(http.MethodPut, path, content, "Content-MD5", sum([]byte("other"))).want(t, 400, "checksum_mismatch")

	stored := decode[api.Video](t, s.call(http.MethodPut, path, content, "Content-MD5", sum(content), "Content-Type", "video/mp4"), http.StatusAccepted)
	if stored.State != api.Uploaded || stored.SizeBytes != int64(len(content)) {
		t.Errorf("after the upload: %s, %d bytes", stored.State, stored.SizeBytes)
	}
	if !bytes.Equal(s.source(v.Id), content) {
		t.Error("the source blob differs from what was sent")
	}
	if probe, index := s.messages("probe"), s.messages("index"); probe != 1 || index != 1 {
		t.Errorf("%d probe and %d index messages, want 1 and 1", probe, index)
	}
	s.call(http.MethodPut, path, content).want(t, 409, "state_conflict")
	if got := decode[api.Video](t, s.call(http.MethodPost, "/videos/"+v.Id+"/upload/complete", nil), http.StatusAccepted); got.State != api.Uploaded {
		t.Errorf("complete after the upload: %s", got.State)
	}
	if n := s.messages("probe"); n != 1 {
		t.Errorf("%d probe messages after a repeated complete, want 1", n)
	}
}

// TestPutRefusesWhatIsNoVideo: the first bytes decide, before anything is stored.
func TestPutRefusesWhatIsNoVideo(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	v := s.create(map[string]any{})
	path := "/videos/" + v.Id + "/content"
	playlist := []byte("#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n" + strings.Repeat("#\n", 3*blobstore.BlockSize))
	for name, content := range map[string][]byte{
		"nothing": {}, "one byte": {0}, "text": []byte("hello"), "playlist": playlist, "svg": []byte("<svg/>"),
	} {
		if got := s.call(http.MethodPut, path, content); got.StatusCode != 415 || got.code(t) != "unsupported_media" {
			t.Errorf("%s: %d %s", name, got.StatusCode, got.body)
		}
	}
	if left := s.blobsOf(v.Id); left != nil {
		t.Errorf("refused uploads left %v", left)
	}
	if key := decode[api.Upload](t, s.call(http.MethodGet, "/videos/"+v.Id+"/upload", nil), http.StatusOK); len(key.BlocksHeld) != 0 {
		t.Errorf("refused uploads left blocks %v", key.BlocksHeld)
	}
	if got := decode[api.Video](t, s.call(http.MethodGet, "/videos/"+v.Id, nil), http.StatusOK); got.State != api.AwaitingUpload {
		t.Errorf("state %s", got.State)
	}
}

// TestBrokenUploadGoesOn cuts a PUT off in its third block, asks what is there,
// and sends the rest with the valet key (Q14).
func TestBrokenUploadGoesOn(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	content := movie(3*blobstore.BlockSize + 1)
	v := s.create(map[string]any{"sizeBytes": len(content)})

	conn, err := net.Dial("tcp", strings.TrimPrefix(s.public, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "PUT /api/v1/videos/%s/content HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", v.Id, len(content))
	if _, err := conn.Write(content[:2*blobstore.BlockSize+999]); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	var key api.Upload
	azuritetest.Eventually(t, 20*time.Second, func() error {
		key = decode[api.Upload](t, s.call(http.MethodGet, "/videos/"+v.Id+"/upload", nil), http.StatusOK)
		if diff := cmp.Diff([]int{0, 1}, key.BlocksHeld); diff != "" {
			return fmt.Errorf("blocks held (-want +got):\n%s", diff)
		}
		return nil
	})
	s.call(http.MethodPost, "/videos/"+v.Id+"/upload/complete", nil).want(t, 409, "upload_incomplete")
	if got := decode[api.Video](t, s.call(http.MethodGet, "/videos/"+v.Id, nil), http.StatusOK); got.State != api.AwaitingUpload {
		t.Fatalf("state %s", got.State)
	}
	s.putBlock(key, content, 2)
	s.call(http.MethodPost, "/videos/"+v.Id+"/upload/complete", nil).want(t, 409, "upload_incomplete")
	s.putBlock(key, content, 3)
	for range 2 { // the second is a repetition
		if got := decode[api.Video](t, s.call(http.MethodPost, "/videos/"+v.Id+"/upload/complete", nil), http.StatusAccepted); got.State != api.Uploaded {
			t.Errorf("state %s", got.State)
		}
	}
	if !bytes.Equal(s.source(v.Id), content) {
		t.Error("the source blob differs from what was sent")
	}
	if n := s.messages("probe"); n != 1 {
		t.Errorf("%d probe messages, want 1", n)
	}
}

// putBlock sends block n with a valet key, as a browser does.
func (s *server) putBlock(key api.Upload, content []byte, n int) {
	s.t.Helper()
	from := int64(n) * key.BlockSizeBytes
	block := content[from:min(int64(len(content)), from+key.BlockSizeBytes)]
	id := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%0*d", key.BlockIdDigits, n))
	got := s.send(s.request(http.MethodPut, key.Url+"&comp=block&blockid="+url.QueryEscape(id), block))
	if got.StatusCode != http.StatusCreated {
		s.t.Fatalf("put block %d: %d %s", n, got.StatusCode, got.body)
	}
}

// TestPagesMayUpload: the role's start let its pages call the blob service. It
// runs alone: a service has five rules, and every role of a test adds one.
func TestPagesMayUpload(t *testing.T) {
	s := start(t, nil)
	v := s.create(map[string]any{})
	key := decode[api.Upload](t, s.call(http.MethodGet, "/videos/"+v.Id+"/upload", nil), http.StatusOK)
	preflight := s.send(s.request(http.MethodOptions, key.Url, nil, "Origin", s.public,
		"Access-Control-Request-Method", "PUT", "Access-Control-Request-Headers", "x-ms-version"))
	if preflight.StatusCode != http.StatusOK || preflight.Header.Get("Access-Control-Allow-Origin") != s.public {
		t.Errorf("our page: %d %v", preflight.StatusCode, preflight.Header)
	}
	stranger := s.send(s.request(http.MethodOptions, key.Url, nil, "Origin", "http://evil.example", "Access-Control-Request-Method", "PUT"))
	if stranger.StatusCode != http.StatusForbidden {
		t.Errorf("another site's page: %d", stranger.StatusCode)
	}
}

// TestValetKeyIsNarrow: it writes one blob and neither reads nor lists.
func TestValetKeyIsNarrow(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	v := s.create(map[string]any{})
	key := decode[api.Upload](t, s.call(http.MethodGet, "/videos/"+v.Id+"/upload", nil), http.StatusOK)
	if key.BlockSizeBytes != blobstore.BlockSize || time.Until(key.ExpiresAt) > 20*time.Minute {
		t.Errorf("key %+v", key)
	}
	s.putBlock(key, movie(1000), 0)
	if got := s.send(s.request(http.MethodGet, key.Url, nil)); got.StatusCode != http.StatusForbidden {
		t.Errorf("the key reads: %d", got.StatusCode)
	}
	if got := s.send(s.request(http.MethodGet, key.Url+"&comp=blocklist", nil)); got.StatusCode != http.StatusForbidden {
		t.Errorf("the key lists blocks: %d", got.StatusCode)
	}
	other := strings.Replace(key.Url, v.Id, strings.Repeat("b", 26), 1)
	if got := s.send(s.request(http.MethodPut, other+"&comp=block&blockid=AAAA", []byte("x"))); got.StatusCode != http.StatusForbidden {
		t.Errorf("the key opens another blob: %d", got.StatusCode)
	}
}

// TestCompleteLooksAtTheContent: the holder of a key may put anything.
func TestCompleteLooksAtTheContent(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	v := s.create(map[string]any{})
	complete := "/videos/" + v.Id + "/upload/complete"
	s.call(http.MethodPost, complete, nil).want(t, 409, "upload_incomplete")
	key := decode[api.Upload](t, s.call(http.MethodGet, "/videos/"+v.Id+"/upload", nil), http.StatusOK)
	s.putBlock(key, []byte("#EXTM3U\nhttp://169.254.169.254/\n"), 0)
	s.call(http.MethodPost, complete, nil).want(t, 415, "unsupported_media")
	if left := s.blobsOf(v.Id); left != nil {
		t.Errorf("a refused upload left %v", left)
	}
	s.putBlock(key, movie(5000), 0)
	if got := decode[api.Video](t, s.call(http.MethodPost, complete, nil), http.StatusAccepted); got.SizeBytes != 5000 {
		t.Errorf("size %d", got.SizeBytes)
	}
}

// TestTheVerifiedVersionIsNoted: a key opens the blob for some minutes more, so
// the version that was looked at goes into the row, and only it is processed.
func TestTheVerifiedVersionIsNoted(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	noted := func(id string) (row, blob string) {
		t.Helper()
		rec, err := s.videos.Get(t.Context(), video.ID(id))
		if err != nil {
			t.Fatal(err)
		}
		head, err := s.blobs.Head(t.Context(), video.SourcesContainer, video.SourceBlob(video.ID(id)))
		if err != nil {
			t.Fatal(err)
		}
		return rec.Video.SourceETag, head.ETag
	}
	v := s.create(map[string]any{})
	key := decode[api.Upload](t, s.call(http.MethodGet, "/videos/"+v.Id+"/upload", nil), http.StatusOK)
	s.putBlock(key, movie(5000), 0)
	var all sync.WaitGroup
	for range 4 { // a request that is repeated while the first runs does not commit again
		all.Go(func() {
			if got := s.call(http.MethodPost, "/videos/"+v.Id+"/upload/complete", nil); got.StatusCode != http.StatusAccepted {
				t.Errorf("complete: %d %s", got.StatusCode, got.body)
			}
		})
	}
	all.Wait()
	if row, blob := noted(v.Id); row == "" || row != blob {
		t.Errorf("after complete the row has version %q, the blob %q", row, blob)
	}
	again := s.send(s.request(http.MethodPut, key.Url, movie(4000), "x-ms-blob-type", "BlockBlob"))
	if again.StatusCode != http.StatusCreated {
		t.Fatalf("overwrite with the key: %d %s", again.StatusCode, again.body)
	}
	if row, blob := noted(v.Id); row == blob {
		t.Errorf("after overwriting the row has the new version %q", row)
	}
	v = s.create(map[string]any{})
	decode[api.Video](t, s.call(http.MethodPut, "/videos/"+v.Id+"/content", movie(5000)), http.StatusAccepted)
	if row, blob := noted(v.Id); row == "" || row != blob {
		t.Errorf("after a whole upload the row has version %q, the blob %q", row, blob)
	}
}

// TestBigPutNeedsLittleMemory sends 256 MiB and watches the heap. The client is
// in the same process, so the bound covers both.
func TestBigPutNeedsLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("moves 256 MiB, which -short leaves out")
	}
	s := start(t, nil)
	v := s.create(map[string]any{})
	const size = 256 << 20
	runtime.GC()
	base := heap()
	peak := uint64(0)
	body := &generated{left: size, each: func() { peak = max(peak, heap()) }}
	req := s.request(http.MethodPut, s.public+"/api/v1/videos/"+v.Id+"/content", nil)
	req.Body, req.ContentLength = io.NopCloser(body), size
	got := decode[api.Video](t, s.send(req), http.StatusAccepted)
	if got.SizeBytes != size {
		t.Errorf("size %d", got.SizeBytes)
	}
	const bound = 64 << 20
	if grown := int64(peak) - int64(base); grown > bound {
		t.Errorf("the heap grew by %d MiB during an upload of %d MiB, at most %d allowed", grown>>20, size>>20, bound>>20)
	}
}

// TestUploadsShareTheirMemory starts a hundred uploads in a role that has memory
// for eight blocks. Each succeeds or is told to come again, and the heap stays
// within bounds. The clients are in the same process, so the bound covers both.
func TestUploadsShareTheirMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("moves hundreds of MiB, which -short leaves out")
	}
	const memory, count, size = 32 << 20, 100, 2*blobstore.BlockSize + 1
	s := start(t, map[string]string{"WEBROLE_UPLOAD_MEMORY": fmt.Sprint(memory >> 20)})
	paths := make([]string, count)
	for i := range paths {
		paths[i] = "/videos/" + s.create(map[string]any{}).Id + "/content"
	}
	put := func(path string) answer {
		req := s.request(http.MethodPut, s.public+"/api/v1"+path, nil)
		req.Body, req.ContentLength = io.NopCloser(&generated{left: size, each: func() {}}), size
		return s.send(req)
	}
	runtime.GC()
	base, peak := heap(), uint64(0)
	done := make(chan struct{})
	var watch, uploads sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
				peak = max(peak, heap())
			}
		}
	})
	var stored, refused atomic.Int32
	for _, path := range paths {
		uploads.Go(func() {
			switch a := put(path); {
			case a.StatusCode == http.StatusAccepted:
				stored.Add(1)
			case a.StatusCode == http.StatusTooManyRequests && a.code(t) == "too_busy" && a.Header.Get("Retry-After") != "":
				refused.Add(1)
			default:
				t.Errorf("%d %s", a.StatusCode, a.body)
			}
		})
	}
	uploads.Wait()
	close(done)
	watch.Wait()
	// The collector lets the heap double, and there are a hundred connections with
	// both their ends. Without the limit it grows by a gigabyte.
	const bound = 2*memory + 96<<20
	t.Logf("%d stored, %d refused, the heap grew by %d MiB", stored.Load(), refused.Load(), (int64(peak)-int64(base))>>20)
	if grown := int64(peak) - int64(base); grown > bound {
		t.Errorf("the heap grew by %d MiB, at most %d allowed", grown>>20, bound>>20)
	}
	if stored.Load() < memory/blobstore.BlockSize || refused.Load() == 0 {
		t.Errorf("%d stored, %d refused: want both", stored.Load(), refused.Load())
	}
	// What they held is there for others.
	for range memory/blobstore.BlockSize + 1 {
		put("/videos/"+s.create(map[string]any{}).Id+"/content").want(t, http.StatusAccepted, "")
	}
}

// TestTwoWebRolesTakeOneFile sends two files of the same size for one video, each
// through a web role of its own, block by block in turns. The first to finish wins
// whole, and the other is told.
func TestTwoWebRolesTakeOneFile(t *testing.T) {
	t.Parallel()
	first := start(t, nil)
	second := start(t, map[string]string{"CUTROOM_PREFIX": first.account.Prefix()})
	const size = 3*blobstore.BlockSize + 1
	films := [2][]byte{movie(size), bytes.Repeat([]byte("the other film "), size/15+1)[:size]}
	copy(films[1], films[0][:sniffed])
	v := first.create(map[string]any{"sizeBytes": size})

	var writers [2]*io.PipeWriter
	var answers [2]chan answer
	for i, s := range []*server{first, second} {
		reader, writer := io.Pipe()
		req := s.request(http.MethodPut, s.public+"/api/v1/videos/"+v.Id+"/content", nil)
		req.Body, req.ContentLength = reader, size
		writers[i], answers[i] = writer, make(chan answer, 1)
		defer writer.Close() //nolint:errcheck // a pipe's Close returns nil
		go func() { answers[i] <- s.send(req) }()
	}
	write := func(i, from, to int) {
		t.Helper()
		if _, err := writers[i].Write(films[i][from:to]); err != nil {
			t.Fatalf("film %d: %v", i, err)
		}
	}
	for at := 0; at < 3*blobstore.BlockSize; at += blobstore.BlockSize {
		write(0, at, at+blobstore.BlockSize)
		write(1, at, at+blobstore.BlockSize)
	}
	write(0, 3*blobstore.BlockSize, size)
	(<-answers[0]).want(t, http.StatusAccepted, "")
	write(1, 3*blobstore.BlockSize, size)
	(<-answers[1]).want(t, http.StatusConflict, "upload_conflict")
	if !bytes.Equal(first.source(v.Id), films[0]) {
		t.Error("the source blob is not the winner's film")
	}
}

// sniffed is how many first bytes make a file look like a video.
const sniffed = 64

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// generated is a stream that is nowhere in memory.
type generated struct {
	left    int64
	started bool
	since   int
	each    func()
}

func (g *generated) Read(p []byte) (int, error) {
	if g.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), g.left))
	clear(p[:n])
	if !g.started {
		g.started = true
		copy(p, movie(min(n, 64)))
	}
	g.left -= int64(n)
	if g.since += n; g.since > 8<<20 {
		g.since = 0
		g.each()
	}
	return n, nil
}
