package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

const partBytes = sourceparts.PartBytes

// begin asks what is held of an upload and what to send.
func (s *server) begin(id string, body any) api.Upload {
	s.t.Helper()
	return decode[api.Upload](s.t, s.call(http.MethodPost, "/videos/"+id+"/upload", body), http.StatusOK)
}

// putURL sends part n to a URL, as a browser does.
func (s *server) putURL(url string, content []byte, n int) answer {
	s.t.Helper()
	from := n * partBytes
	part := content[from:min(len(content), from+partBytes)]
	return s.send(s.request(http.MethodPut, url, part, "x-ms-blob-type", "BlockBlob", "If-None-Match", "*", "Content-MD5", sum(part)))
}

// Of many requests that put one part at the same moment, as tabs with the same file do, one
// writes it: what a manifest names never changes (H1).
func TestPartIsWrittenOnce(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	content := movie(partBytes)
	v := s.create(map[string]any{"sizeBytes": len(content)})
	url := urlOf(t, s.begin(v.Id, nil), 0)
	var written, refused atomic.Int32
	var sending sync.WaitGroup
	for range 8 {
		sending.Go(func() {
			switch got := s.putURL(url, content, 0); got.StatusCode {
			case http.StatusCreated:
				written.Add(1)
			case http.StatusConflict, http.StatusForbidden:
				refused.Add(1)
			default:
				t.Errorf("%d %s", got.StatusCode, got.body)
			}
		})
	}
	sending.Wait()
	if written.Load() != 1 || refused.Load() != 7 {
		t.Errorf("%d wrote it and %d were refused", written.Load(), refused.Load())
	}
}

// putParts sends the parts in todo, or the first that a client is told to send.
func (s *server) putParts(up api.Upload, content []byte, todo ...int) {
	s.t.Helper()
	for _, n := range todo {
		if got := s.putURL(urlOf(s.t, up, n), content, n); got.StatusCode != http.StatusCreated {
			s.t.Fatalf("put part %d: %d %s", n, got.StatusCode, got.body)
		}
	}
}

func urlOf(t *testing.T, up api.Upload, n int) string {
	t.Helper()
	for _, ticket := range up.Send {
		if ticket.Number == n {
			return ticket.Url
		}
	}
	t.Fatalf("no key for part %d in %+v", n, up)
	return ""
}

// sums are the checksums of all parts.
func sums(content []byte) (out []string) {
	for from := 0; from < len(content); from += partBytes {
		out = append(out, sum(content[from:min(len(content), from+partBytes)]))
	}
	return out
}

func numbers(parts []api.PartHeld) (out []int) {
	for _, p := range parts {
		out = append(out, p.Number)
	}
	return out
}

// toSend are the parts to send, by number.
func toSend(parts []api.PartToSend) (out []int) {
	for _, p := range parts {
		out = append(out, p.Number)
	}
	slices.Sort(out)
	return out
}

// TestUploadInParts: what is held is told with its checksum, and complete takes nothing but
// the whole file of no matter who says so (Q12, Q14).
func TestUploadInParts(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	content := movie(4*partBytes + 1234)
	v := s.create(map[string]any{"sizeBytes": len(content)})
	path, complete := "/videos/"+v.Id+"/upload", "/videos/"+v.Id+"/upload/complete"
	s.call(http.MethodPost, path, map[string]any{"sizeBytes": 5}).want(t, 400, "size_mismatch")
	up := s.begin(v.Id, nil)
	if up.Parts != 5 || up.PartSizeBytes != partBytes || up.SizeBytes != int64(len(content)) || len(up.Held) != 0 || time.Until(up.ExpiresAt) > 20*time.Minute {
		t.Errorf("upload %+v", up)
	}
	if diff := cmp.Diff([]int{0, 1, 2, 3, 4}, toSend(up.Send)); diff != "" {
		t.Errorf("to send (-want +got):\n%s", diff)
	}
	s.call(http.MethodPost, complete, nil).want(t, 409, "upload_incomplete")
	s.putParts(up, content, 0, 2, 4)
	s.call(http.MethodPost, complete, nil).want(t, 409, "upload_incomplete")
	up = s.begin(v.Id, map[string]any{"sizeBytes": len(content)})
	if diff := cmp.Diff([]api.PartHeld{{
		Number: 0, Md5: sums(content)[0],
	}, {
		Number: 2, Md5: sums(content)[2],
	}, {
		Number: 4, Md5: sums(content)[4],
	}}, up.Held); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{1, 3}, toSend(up.Send)); diff != "" {
		t.Errorf("still to send (-want +got):\n%s", diff)
	}
	look := decode[api.Upload](t, s.call(http.MethodGet, path, nil), http.StatusOK)
	if diff := cmp.Diff(numbers(up.Held), numbers(look.Held)); diff != "" {
		t.Errorf("GET says (-want +got):\n%s", diff)
	}
	s.putParts(look, content, 1, 3)
	other := sums(content)
	other[3] = sum([]byte("another file"))
	s.call(http.MethodPost, complete, map[string]any{"md5": other}).want(t, 409, "upload_conflict")
	s.call(http.MethodPost, complete, map[string]any{"md5": other[:4]}).want(t, 409, "upload_conflict")
	s.call(http.MethodPost, complete, map[string]any{"md5": []string{"AAAA"}}).want(t, 400, "invalid_checksum")
	for range 2 { // the second is a repetition
		got := decode[api.Video](t, s.call(http.MethodPost, complete, map[string]any{"md5": sums(content)}), http.StatusAccepted)
		if got.State != engine.Uploaded || got.SizeBytes != int64(len(content)) {
			t.Errorf("state %s, %d bytes", got.State, got.SizeBytes)
		}
	}
	if !bytes.Equal(s.source(v.Id), content) {
		t.Error("the source differs from what was sent")
	}
	if n := s.messages("probe"); n != 1 {
		t.Errorf("%d probe messages, want 1", n)
	}
	s.call(http.MethodPost, path, nil).want(t, 409, "state_conflict")
}

// TestValetKeyCreatesAndNoMore: a key creates one part, once. It neither reads nor
// deletes, and whatever its holder tries with what is there, also after complete, is
// refused and changes nothing.
func TestValetKeyCreatesAndNoMore(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	content := movie(partBytes + 7)
	v := s.create(map[string]any{"sizeBytes": len(content)})
	up := s.begin(v.Id, nil)
	part := content[partBytes:]
	wrong := s.send(s.request(http.MethodPut, urlOf(t, up, 1), part, "x-ms-blob-type", "BlockBlob", "Content-MD5", sum([]byte("other"))))
	if wrong.StatusCode != http.StatusBadRequest {
		t.Errorf("a part that was changed on the way: %d", wrong.StatusCode)
	}
	s.putParts(up, content, 0, 1)
	key := urlOf(t, up, 1)
	instead := func(part, other string) string {
		t.Helper()
		if !strings.Contains(key, part) {
			t.Fatalf("no %s in the key", part)
		}
		return strings.Replace(key, part, other, 1)
	}
	attack := func(when string) {
		t.Helper()
		for name, req := range map[string]*http.Request{
			"overwrite":        s.request(http.MethodPut, key, []byte("evil"), "x-ms-blob-type", "BlockBlob"),
			"write it again":   s.request(http.MethodPut, key, part, "x-ms-blob-type", "BlockBlob"),
			"append blob":      s.request(http.MethodPut, key, nil, "x-ms-blob-type", "AppendBlob"),
			"page blob":        s.request(http.MethodPut, key, nil, "x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "512"),
			"stage a block":    s.request(http.MethodPut, key+"&comp=block&blockid=AAAA", []byte("evil")),
			"commit blocks":    s.request(http.MethodPut, key+"&comp=blocklist", []byte(`<?xml version="1.0" encoding="utf-8"?><BlockList></BlockList>`)),
			"set metadata":     s.request(http.MethodPut, key+"&comp=metadata", nil, "x-ms-meta-a", "b"),
			"set properties":   s.request(http.MethodPut, key+"&comp=properties", nil, "x-ms-blob-content-type", "text/html"),
			"copy onto it":     s.request(http.MethodPut, key, nil, "x-ms-copy-source", urlOf(t, up, 0)),
			"read":             s.request(http.MethodGet, key, nil),
			"list blocks":      s.request(http.MethodGet, key+"&comp=blocklist", nil),
			"delete":           s.request(http.MethodDelete, key, nil),
			"another part":     s.request(http.MethodPut, instead("%2F00001?", "%2F00002?"), []byte("evil"), "x-ms-blob-type", "BlockBlob"),
			"the manifest":     s.request(http.MethodPut, instead("%2F00001?", "%2Fmanifest?"), []byte("evil"), "x-ms-blob-type", "BlockBlob"),
			"the whole source": s.request(http.MethodPut, instead("%2Fparts%2F", "%2Fsource%2F"), []byte("evil"), "x-ms-blob-type", "BlockBlob"),
		} {
			if req.Method == http.MethodPut && req.Body == nil {
				req.ContentLength = 0
			}
			if got := s.send(req); got.StatusCode < 400 {
				t.Errorf("%s, %s: %d", when, name, got.StatusCode)
			}
		}
	}
	attack("before complete")
	decode[api.Video](t, s.call(http.MethodPost, "/videos/"+v.Id+"/upload/complete", nil), http.StatusAccepted)
	attack("after complete")
	if !bytes.Equal(s.source(v.Id), content) {
		t.Error("the source is not what was sent")
	}
}

// TestPartsOfWrongLengthMakeRoom: a part that is too short bars the way of the right
// one, so it is removed. A part that is right never is.
func TestPartsOfWrongLengthMakeRoom(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	content := movie(partBytes + 100)
	v := s.create(map[string]any{})
	s.call(http.MethodPost, "/videos/"+v.Id+"/upload", nil).want(t, 400, "invalid_body")
	size := map[string]any{"sizeBytes": len(content)}
	up := s.begin(v.Id, size)
	s.putParts(up, content, 0)
	short := s.send(s.request(http.MethodPut, urlOf(t, up, 1), content[partBytes:partBytes+50], "x-ms-blob-type", "BlockBlob"))
	if short.StatusCode != http.StatusCreated {
		t.Fatalf("put a short part: %d", short.StatusCode)
	}
	s.call(http.MethodPost, "/videos/"+v.Id+"/upload/complete", nil).want(t, 409, "upload_incomplete")
	up = s.begin(v.Id, size)
	if diff := cmp.Diff([]int{0}, numbers(up.Held)); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
	s.putParts(up, content, 1)
	decode[api.Video](t, s.call(http.MethodPost, "/videos/"+v.Id+"/upload/complete", nil), http.StatusAccepted)
	if !bytes.Equal(s.source(v.Id), content) {
		t.Error("the source is not what was sent")
	}
}

// TestUploadBeginsAnew: another file is refused until the client says that what was sent
// is to be given up; then nothing of it is left. What is no video is refused with its
// first part, and leaves nothing.
func TestUploadBeginsAnew(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	v := s.create(map[string]any{})
	first, second := movie(2*partBytes), movie(partBytes+5)
	up := s.begin(v.Id, map[string]any{"sizeBytes": len(first)})
	s.putParts(up, first, 1)
	s.call(http.MethodPost, "/videos/"+v.Id+"/upload", map[string]any{"sizeBytes": len(second)}).want(t, 409, "upload_conflict")
	up = s.begin(v.Id, map[string]any{"sizeBytes": len(second), "anew": true})
	if left := s.blobsOf(v.Id); left != nil {
		t.Errorf("the upload that was given up left %v", left)
	}
	text := append([]byte("#EXTM3U\nfile:///etc/passwd\n"), second...)
	if got := s.putURL(urlOf(t, up, 0), text, 0); got.StatusCode != http.StatusCreated {
		t.Fatalf("put part 0: %d %s", got.StatusCode, got.body)
	}
	s.call(http.MethodPost, "/videos/"+v.Id+"/upload", nil).want(t, 415, "unsupported_media")
	if left := s.blobsOf(v.Id); left != nil {
		t.Errorf("a refused upload left %v", left)
	}
	up = s.begin(v.Id, map[string]any{"sizeBytes": len(second)})
	s.putParts(up, second, 0, 1)
	decode[api.Video](t, s.call(http.MethodPost, "/videos/"+v.Id+"/upload/complete", nil), http.StatusAccepted)
	if !bytes.Equal(s.source(v.Id), second) {
		t.Error("the source is not the second file")
	}
	// What is being made already cannot be given up.
	busy := s.create(map[string]any{})
	s.begin(busy.Id, map[string]any{"sizeBytes": 9})
	if _, err := s.videos.Change(t.Context(), engine.ID(busy.Id), "", func(v *video.Video) ([]engine.OutboxMessage, error) {
		v.Upload.Started = true
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	s.call(http.MethodPost, "/videos/"+busy.Id+"/upload", map[string]any{"sizeBytes": 9, "anew": true}).want(t, 409, "upload_conflict")
}

// TestPutContinuesParts: a PUT that broke off is gone on with by valet key, and the
// other way round, and a PUT of another file is told so.
func TestPutContinuesParts(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	content := movie(3*partBytes + 1)
	v := s.create(map[string]any{"sizeBytes": len(content)})
	s.begin(v.Id, nil)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.public, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "PUT /api/v1/videos/%s/content HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", v.Id, len(content))
	if _, err := conn.Write(content[:2*partBytes+999]); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	azuritetest.Eventually(t, 20*time.Second, func() error {
		if diff := cmp.Diff([]int{0, 1}, numbers(s.begin(v.Id, nil).Held)); diff != "" {
			return fmt.Errorf("parts held (-want +got):\n%s", diff)
		}
		return nil
	})
	s.putParts(s.begin(v.Id, nil), content, 3)
	other := bytes.Clone(content)
	other[partBytes+5] ^= 1
	s.call(http.MethodPut, "/videos/"+v.Id+"/content", other).want(t, 409, "upload_conflict")
	decode[api.Video](t, s.call(http.MethodPut, "/videos/"+v.Id+"/content", content, "Content-MD5", sum(content)), http.StatusAccepted)
	if !bytes.Equal(s.source(v.Id), content) {
		t.Error("the source differs from what was sent")
	}
}

// TestTwoClientsSendParts: of two different files of one size each part is of the client that
// was first, complete takes no mixture, and two clients with the same file help
// each other.
func TestTwoClientsSendParts(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	mine := movie(3 * partBytes)
	theirs := bytes.Clone(mine)
	theirs[2*partBytes] ^= 1
	v := s.create(map[string]any{"sizeBytes": len(mine)})
	complete := "/videos/" + v.Id + "/upload/complete"
	a, b := s.begin(v.Id, nil), s.begin(v.Id, nil)
	s.putParts(a, mine, 0)
	s.putParts(b, theirs, 1, 2)
	if got := s.putURL(urlOf(t, a, 2), mine, 2); got.StatusCode != http.StatusForbidden {
		t.Errorf("the second to send a part: %d, want 403", got.StatusCode)
	}
	s.call(http.MethodPost, complete, map[string]any{"md5": sums(mine)}).want(t, 409, "upload_conflict")
	var all sync.WaitGroup
	for range 4 { // repeated while the first runs
		all.Go(func() {
			if got := s.call(http.MethodPost, complete, map[string]any{"md5": sums(theirs)}); got.StatusCode != http.StatusAccepted {
				t.Errorf("complete: %d %s", got.StatusCode, got.body)
			}
		})
	}
	all.Wait()
	if !bytes.Equal(s.source(v.Id), theirs) {
		t.Error("the source is a mixture")
	}
	n := 0 // four who complete at once fill lane 0
	for lane := range azq.DefaultLanes {
		n += s.messages(azq.LaneName(workflow.Probe, lane))
	}
	if n != 1 {
		t.Errorf("%d probe messages, want 1", n)
	}
}

// TestManyParts: keys come some at a time, whatever the file's size.
func TestManyParts(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	v := s.create(map[string]any{"sizeBytes": 5 << 30})
	up := s.begin(v.Id, nil)
	if up.Parts != 1280 || len(up.Send) != 32 {
		t.Errorf("%d parts, %d keys", up.Parts, len(up.Send))
	}
	s.call(http.MethodPost, "/videos/"+s.create(map[string]any{}).Id+"/upload", map[string]any{"sizeBytes": 5<<30 + 1}).want(t, 413, "file_too_large")
}
