package main

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

// TestMetadataLives follows a video's metadata from create to delete (Q2).
func TestMetadataLives(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	title := `<script>alert("x")</script> {{7*7}} ` + "\u202e" + `O'Brien 日本`
	created := s.call(http.MethodPost, "/videos", map[string]any{
		"title": title, "description": "two\nlines", "actors": []string{"Ann Actor"}, "directors": []string{"Dee"},
		"tags": []string{"tag"}, "channel": "some/where#?", "visibility": "unlisted", "priority": "high", "sizeBytes": 12, "fingerprint": "f|12|1",
	})
	v := decode[api.Video](t, created, http.StatusCreated)
	if created.Header.Get("ETag") != v.Etag || created.Header.Get("Location") != "/api/v1/videos/"+v.Id {
		t.Errorf("headers ETag %q Location %q", created.Header.Get("ETag"), created.Header.Get("Location"))
	}
	if v.State != api.AwaitingUpload || v.Title != title || v.Channel != "some/where#?" || v.Playable || v.Links.Upload == nil {
		t.Errorf("created %+v", v)
	}
	if _, err := video.ParseID(v.Id); err != nil {
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
	if v.Title != "Only a title" || v.Channel != "main" || v.Visibility != api.Public || v.Priority != api.Normal {
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
	if v := decode[api.Video](t, s.call(http.MethodPost, path+"/cancel", nil), http.StatusAccepted); v.State != api.Cancelled {
		t.Errorf("cancelled: %s", v.State)
	}
	if v := decode[api.Video](t, s.call(http.MethodPost, path+"/retry", nil), http.StatusAccepted); v.State != api.AwaitingUpload {
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
	if !strings.Contains(string(other.body), first.Id) {
		t.Errorf("mismatch does not name the video: %s", other.body)
	}
	if v := decode[api.Video](t, s.call(http.MethodPost, "/videos", `{"title":"A","tags":["x"]}`, "Idempotency-Key", "another"), http.StatusCreated); v.Id == first.Id {
		t.Error("two keys made one video")
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
