package main

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
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
	content := movie(2*partBytes + 12_345)
	v := s.create(map[string]any{"sizeBytes": len(content)})
	path := "/videos/" + v.Id + "/content"

	s.call(http.MethodPut, path, content[:100]).want(t, 400, "size_mismatch")
	s.call(http.MethodPut, path, content, "Content-MD5", "AAAA").want(t, 400, "invalid_checksum")
	s.call(http.MethodPut, path, content, "Content-MD5", sum([]byte("other"))).want(t, 400, "checksum_mismatch")

	stored := decode[api.Video](t, s.call(http.MethodPut, path, content, "Content-MD5", sum(content), "Content-Type", "video/mp4"), http.StatusAccepted)
	if stored.State != engine.Uploaded || stored.SizeBytes != int64(len(content)) {
		t.Errorf("after the upload: %s, %d bytes", stored.State, stored.SizeBytes)
	}
	if !bytes.Equal(s.source(v.Id), content) {
		t.Error("the source differs from what was sent")
	}
	if probe, index := s.messages("probe"), s.messages("index"); probe != 1 || index != 1 {
		t.Errorf("%d probe and %d index messages, want 1 and 1", probe, index)
	}
	s.call(http.MethodPut, path, content).want(t, 409, "state_conflict")
	if got := decode[api.Video](t, s.call(http.MethodPost, "/videos/"+v.Id+"/upload/complete", nil), http.StatusAccepted); got.State != engine.Uploaded {
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
	playlist := []byte("#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n" + strings.Repeat("#\n", 3*partBytes))
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
	if up := decode[api.Upload](t, s.call(http.MethodGet, "/videos/"+v.Id+"/upload", nil), http.StatusOK); len(up.Held) != 0 {
		t.Errorf("refused uploads left parts %v", up.Held)
	}
	if got := decode[api.Video](t, s.call(http.MethodGet, "/videos/"+v.Id, nil), http.StatusOK); got.State != engine.AwaitingUpload {
		t.Errorf("state %s", got.State)
	}
}

// TestPagesMayUpload: the role's start let its pages call the blob service. It
// runs alone: a service has five rules, and every role of a test adds one.
func TestPagesMayUpload(t *testing.T) {
	s := start(t, nil)
	v := s.create(map[string]any{})
	key := s.begin(v.Id, map[string]any{"sizeBytes": 9}).Send[0].Url
	preflight := s.send(s.request(http.MethodOptions, key, nil, "Origin", s.public,
		"Access-Control-Request-Method", "PUT", "Access-Control-Request-Headers", "x-ms-version,x-ms-blob-type,content-md5,if-none-match"))
	if preflight.StatusCode != http.StatusOK || preflight.Header.Get("Access-Control-Allow-Origin") != s.public {
		t.Errorf("our page: %d %v", preflight.StatusCode, preflight.Header)
	}
	stranger := s.send(s.request(http.MethodOptions, key, nil, "Origin", "http://evil.example", "Access-Control-Request-Method", "PUT"))
	if stranger.StatusCode != http.StatusForbidden {
		t.Errorf("another site's page: %d", stranger.StatusCode)
	}
}

// TestTheVerifiedVersionIsNoted: the row has the version of the manifest, which has that
// of each part, whichever way the file came.
func TestTheVerifiedVersionIsNoted(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	straight := s.create(map[string]any{"sizeBytes": 5000})
	s.putParts(s.begin(straight.Id, nil), movie(5000), 0)
	decode[api.Video](t, s.call(http.MethodPost, "/videos/"+straight.Id+"/upload/complete", nil), http.StatusAccepted)
	through := s.create(map[string]any{})
	decode[api.Video](t, s.call(http.MethodPut, "/videos/"+through.Id+"/content", movie(5000)), http.StatusAccepted)
	for _, id := range []engine.ID{engine.ID(straight.Id), engine.ID(through.Id)} {
		rec, err := s.videos.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		l, _ := sourceparts.LayoutOf(rec.Subject.Upload)
		m, err := sourceparts.ReadManifest(t.Context(), s.blobs, sourceparts.ManifestName(id, l.Epoch), rec.Subject.SourceETag)
		if err != nil || rec.Subject.SourceETag == "" {
			t.Fatalf("manifest in version %q: %v", rec.Subject.SourceETag, err)
		}
		head, err := s.blobs.Head(t.Context(), engine.SourcesContainer, sourceparts.Name(id, l, 0))
		if err != nil {
			t.Fatal(err)
		}
		if m.Parts[0].ETag != head.ETag {
			t.Errorf("the manifest has version %q, the part %q", m.Parts[0].ETag, head.ETag)
		}
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
	const memory, count, size = 32 << 20, 100, 2*partBytes + 1
	s := start(t, map[string]string{"WEBROLE_UPLOAD_MEMORY": fmt.Sprint(memory >> 20)})
	paths := make([]string, count)
	for i := range paths {
		paths[i] = "/videos/" + s.create(map[string]any{}).Id + "/content"
	}
	// As curl does, the client waits with the body for an answer to the header: a refusal
	// closes the connection, and a client that is still writing may not see why.
	s.client.Transport.(*http.Transport).ExpectContinueTimeout = time.Minute
	put := func(path string) answer {
		req := s.request(http.MethodPut, s.public+"/api/v1"+path, nil)
		req.Header.Set("Expect", "100-continue")
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
	if stored.Load() < memory/partBytes || refused.Load() == 0 {
		t.Errorf("%d stored, %d refused: want both", stored.Load(), refused.Load())
	}
	// What they held is there for others.
	for range memory/partBytes + 1 {
		put("/videos/"+s.create(map[string]any{}).Id+"/content").want(t, http.StatusAccepted, "")
	}
}

// TestTwoWebRolesTakeOneFile sends two files of the same size for one video, each
// through a web role of its own. The first to store a part wins whole, and the other is
// told at once. A third, with the winner's file, helps.
func TestTwoWebRolesTakeOneFile(t *testing.T) {
	t.Parallel()
	first := start(t, nil)
	second := start(t, map[string]string{"CUTROOM_PREFIX": first.account.Prefix()})
	const size = 3*partBytes + 1
	film := movie(size)
	other := bytes.Repeat([]byte("the other film "), size/15+1)[:size]
	copy(other, film[:sniffed])
	v := first.create(map[string]any{"sizeBytes": size})
	path := "/videos/" + v.Id + "/content"

	reader, writer := io.Pipe()
	req := first.request(http.MethodPut, first.public+"/api/v1"+path, nil)
	req.Body, req.ContentLength = reader, size
	winner := make(chan answer, 1)
	defer writer.Close() //nolint:errcheck // a pipe's Close returns nil
	go func() { winner <- first.send(req) }()
	write := func(from, to int) {
		t.Helper()
		if _, err := writer.Write(film[from:to]); err != nil {
			t.Fatal(err)
		}
	}
	write(0, 2*partBytes)
	azuritetest.Eventually(t, 20*time.Second, func() error {
		if held := decode[api.Upload](t, second.call(http.MethodGet, "/videos/"+v.Id+"/upload", nil), http.StatusOK).Held; len(held) < 2 {
			return fmt.Errorf("held are %v, want the first two parts", held)
		}
		return nil
	})
	second.call(http.MethodPut, path, other).want(t, http.StatusConflict, "upload_conflict")
	second.putParts(second.begin(v.Id, nil), film, 3)
	write(2*partBytes, size)
	(<-winner).want(t, http.StatusAccepted, "")
	if !bytes.Equal(first.source(v.Id), film) {
		t.Error("the source is not the winner's film")
	}
}

// TestPutOfAnotherSizeBeginsAnew: a PUT broke off, and the next has another file.
func TestPutOfAnotherSizeBeginsAnew(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	v := s.create(map[string]any{})
	wrong, right := movie(2*partBytes+1), movie(partBytes+1)
	s.putParts(s.begin(v.Id, map[string]any{"sizeBytes": len(wrong)}), wrong, 0, 2)
	decode[api.Video](t, s.call(http.MethodPut, "/videos/"+v.Id+"/content", right), http.StatusAccepted)
	if !bytes.Equal(s.source(v.Id), right) {
		t.Error("the source is not the second file")
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
