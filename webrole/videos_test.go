package main

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

// TestMetadataLives follows a video's metadata from create to delete (Q2).
func TestMetadataLives(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	title := `<script>alert("x")</script> {{7*7}} ` + "\u200f" + `O'Brien 日本`
	for _, deceives := range []string{"\u202egnol", "\u200b", "a\u2066b"} {
		s.call(http.MethodPost, "/videos", map[string]any{"title": deceives}).want(t, http.StatusBadRequest, "invalid_body")
	}
	created := s.call(http.MethodPost, "/videos", map[string]any{
		"title": title, "description": "two\nlines", "actors": []string{"Ann Actor"}, "directors": []string{"Dee"},
		"tags": []string{"tag"}, "channel": "some/where#?", "visibility": "unlisted", "priority": "high", "sizeBytes": 12, "fingerprint": "f|12|1",
	})
	v := decode[api.Video](t, created, http.StatusCreated)
	if created.Header.Get("ETag") != v.Etag || created.Header.Get("Location") != "/api/v1/videos/"+v.Id {
		t.Errorf("headers ETag %q Location %q", created.Header.Get("ETag"), created.Header.Get("Location"))
	}
	if v.State != engine.AwaitingUpload || v.Title != title || v.Channel != "some/where#?" || v.Playable || v.Links.Upload == nil {
		t.Errorf("created %+v", v)
	}
	if _, err := engine.ParseID(v.Id); err != nil {
		t.Error(err)
	}
	path := "/videos/" + v.Id
	if diff := cmp.Diff(v, decode[api.Video](t, s.call(http.MethodGet, path, nil), http.StatusOK)); diff != "" {
		t.Errorf("read back (-created +read):\n%s", diff)
	}

	edited := decode[api.Video](t, s.call(http.MethodPatch, path, map[string]any{"title": "New"}, "If-Match", v.Etag), http.StatusOK)
	if edited.Title != "New" || edited.Description != "two\nlines" || edited.Etag == v.Etag {
		t.Errorf("edited %+v", edited)
	}
	if n := s.messages("index"); n != 1 {
		t.Errorf("%d index messages after an edit, want 1", n)
	}
	s.call(http.MethodPatch, path, map[string]any{"title": "Newer"}, "If-Match", v.Etag).want(t, 412, "precondition_failed")
	s.call(http.MethodPatch, path, map[string]any{"title": "Newer"}, "If-Match", `"nonsense"`).want(t, 412, "precondition_failed")
	s.call(http.MethodPatch, path, map[string]any{"title": "Newer"}).want(t, 428, "precondition_required")
	s.call(http.MethodDelete, path, nil, "If-Match", v.Etag).want(t, 412, "precondition_failed")

	s.call(http.MethodDelete, path, nil).want(t, http.StatusAccepted, "")
	s.call(http.MethodGet, path, nil).want(t, 404, "not_found")
	s.call(http.MethodGet, path+"/steps", nil).want(t, 404, "not_found")
	s.call(http.MethodGet, path+"/upload", nil).want(t, 404, "not_found")
	s.call(http.MethodPatch, path, map[string]any{"title": "x"}, "If-Match", "*").want(t, 404, "not_found")
	s.call(http.MethodPost, path+"/cancel", nil).want(t, 404, "not_found")
	s.call(http.MethodDelete, path, nil).want(t, http.StatusAccepted, "")
	if n := s.messages("purge"); n != 1 {
		t.Errorf("%d purge messages after two deletes, want 1", n)
	}
}

// TestDefaults: a title is enough.
func TestDefaults(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	v := s.create(map[string]any{"title": "  Only a title "})
	if v.Title != "Only a title" || v.Channel != "main" || v.Visibility != video.Public || v.Priority != engine.Normal {
		t.Errorf("defaults: %+v", v)
	}
}

// TestCancelAndRetry: a video that never got its bytes goes back to waiting.
func TestCancelAndRetry(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	path := "/videos/" + s.create(map[string]any{}).Id
	s.call(http.MethodPost, path+"/retry", nil).want(t, 409, "state_conflict")
	s.call(http.MethodPost, path+"/reprocess", nil).want(t, 409, "state_conflict")
	if v := decode[api.Video](t, s.call(http.MethodPost, path+"/cancel", nil), http.StatusAccepted); v.State != engine.Cancelled {
		t.Errorf("cancelled: %s", v.State)
	}
	if v := decode[api.Video](t, s.call(http.MethodPost, path+"/retry", nil), http.StatusAccepted); v.State != engine.AwaitingUpload {
		t.Errorf("retried: %s", v.State)
	}
}

// TestIdempotencyKey: the same key makes one video; another body is refused.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	key := []string{"Idempotency-Key", "b1946ac9-2492-4d23-8c2d-1f0d1f0d1f0d"}
	first := decode[api.Video](t, s.call(http.MethodPost, "/videos", `{"title":"A","tags":["x"]}`, key...), http.StatusCreated)

	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			again := s.call(http.MethodPost, "/videos", `{ "tags": ["x"], "title": "A" }`, key...)
			if v := decode[api.Video](t, again, http.StatusCreated); v.Id != first.Id {
				t.Errorf("the same key made %s and %s", first.Id, v.Id)
			}
		})
	}
	wg.Wait()

	// An edit does not turn a repetition into a mismatch.
	decode[api.Video](t, s.call(http.MethodPatch, "/videos/"+first.Id, `{"title":"B"}`, "If-Match", first.Etag), http.StatusOK)
	if v := decode[api.Video](t, s.call(http.MethodPost, "/videos", `{"title":"A","tags":["x"]}`, key...), http.StatusCreated); v.Title != "B" {
		t.Errorf("repetition answers %q, want the video as it is", v.Title)
	}
	other := s.call(http.MethodPost, "/videos", `{"title":"C","tags":["x"]}`, key...)
	other.want(t, 409, "idempotency_mismatch")
	if strings.Contains(string(other.body), first.Id) {
		t.Errorf("mismatch names the video, which may be another user's: %s", other.body)
	}
	if v := decode[api.Video](t, s.call(http.MethodPost, "/videos", `{"title":"A","tags":["x"]}`, "Idempotency-Key", "another"), http.StatusCreated); v.Id == first.Id {
		t.Error("two keys made one video")
	}
}

// TestIDsDoNotComeBack: a video is uploaded, watched, deleted, and a longer file
// is uploaded under the same Idempotency-Key, at every moment of the purge. It
// gets another id, which no cache and no purge takes for the old one.
func TestIDsDoNotComeBack(t *testing.T) {
	t.Parallel()
	for name, purge := range map[string]struct{ before, after []bool }{ // calls of Erase, and whether with META
		"before the purge":         {nil, []bool{false, true}},
		"in the middle":            {[]bool{false}, []bool{true}},
		"after the purge":          {[]bool{false, true}, nil},
		"before a duplicate purge": {[]bool{false, true}, []bool{false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := []string{"Idempotency-Key", "file"} // every server has its own tables
			f := makeFixture(t, nil, key)
			f.chunk(0, 2)
			f.chunk(1, 1)
			f.audio()
			f.finish()
			f.play("master.m3u8").want(t, http.StatusOK, "")
			f.play("240p/1.m4s?g=1").want(t, http.StatusOK, "")
			f.call(http.MethodDelete, "/videos/"+string(f.id), nil).want(t, http.StatusAccepted, "")
			f.erase(purge.before)

			body := map[string]any{"title": fixtureTitle}
			again := decode[api.Video](t, f.call(http.MethodPost, "/videos", body, key...), http.StatusCreated)
			if again.Id == string(f.id) {
				t.Fatal("the id came back")
			}
			f.call(http.MethodPut, "/videos/"+again.Id+"/content", movie(200)).want(t, http.StatusAccepted, "")
			f.erase(purge.after)

			now := decode[api.Video](t, f.call(http.MethodPost, "/videos", body, key...), http.StatusCreated)
			if now.Id != again.Id || now.State != engine.Uploaded || now.SizeBytes != 200 {
				t.Errorf("the key leads to %s in state %s with %d bytes, want %s, uploaded, 200", now.Id, now.State, now.SizeBytes, again.Id)
			}
			if got := f.source(again.Id); len(got) != 200 {
				t.Errorf("the source has %d bytes, want 200", len(got))
			}
			for _, path := range []string{"master.m3u8", "240p.m3u8", "240p/1.m4s?g=1", "poster.jpg", "download.mp4"} {
				f.play(path).want(t, 404, "not_found")
				f.get("/v/"+again.Id+"/"+path).want(t, 404, "")
			}
		})
	}
}

// erase does what the purge does to the rows of the fixture's video.
func (f *fixture) erase(calls []bool) {
	f.t.Helper()
	for _, withMeta := range calls {
		if _, err := f.videos.Erase(f.t.Context(), f.id, withMeta); err != nil {
			f.t.Fatal(err)
		}
	}
}

// TestTwoEditsAtOnce: of two edits of one version exactly one wins.
func TestTwoEditsAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	v := s.create(map[string]any{})
	statuses := make(chan int, 2)
	var wg sync.WaitGroup
	for _, title := range []string{"one", "two"} {
		wg.Go(func() {
			statuses <- s.call(http.MethodPatch, "/videos/"+v.Id, map[string]any{"title": title}, "If-Match", v.Etag).StatusCode
		})
	}
	wg.Wait()
	if a, b := <-statuses, <-statuses; a+b != http.StatusOK+http.StatusPreconditionFailed {
		t.Errorf("statuses %d and %d, want one 200 and one 412", a, b)
	}
}
