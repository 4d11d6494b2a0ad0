package main

import (
	"bytes"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/clips"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

func (f *fixture) clips() string { return "/videos/" + string(f.id) + "/clips" }

// work does what the clip step does with a clip of the fixture.
func (f *fixture) work(clip api.Clip, end func(*videostore.Claim) error) {
	f.t.Helper()
	key, err := clips.ParseID(f.id, clip.Id)
	if err != nil {
		f.t.Fatal(err)
	}
	claim, err := f.videos.Claim(f.t.Context(), key, "message", "worker-1", time.Time{})
	if err == nil {
		err = end(claim)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// TestClipIsAskedForOnce: the same part is the same clip and one work item of
// high priority (Q5), from the request to the bytes.
func TestClipIsAskedForOnce(t *testing.T) {
	t.Parallel()
	f := ready(t)
	v := decode[api.Video](t, f.call(http.MethodGet, "/videos/"+string(f.id), nil), http.StatusOK)
	if v.Links.Clips == nil || *v.Links.Clips != "/api/v1"+f.clips() {
		t.Errorf("links: %+v", v.Links)
	}
	body := map[string]any{"startSeconds": 2.05, "durationSeconds": 3}
	var wg sync.WaitGroup
	answers := make([]api.Clip, 4)
	for i := range answers {
		wg.Go(func() {
			answers[i] = decode[api.Clip](t, f.call(http.MethodPost, f.clips(), body), http.StatusAccepted)
		})
	}
	wg.Wait()
	clip := answers[0]
	for _, other := range answers[1:] {
		if diff := cmp.Diff(clip, other); diff != "" {
			t.Errorf("the same part is another clip (-first +other):\n%s", diff)
		}
	}
	if clip.Id != "g1-51-75" || clip.VideoId != string(f.id) || clip.State != api.ClipQueued || clip.StartSeconds != 2.04 || clip.DurationSeconds != 3 || clip.Links.Media != nil {
		t.Errorf("clip %+v, want 75 frames from frame 51", clip)
	}
	if n := f.messages("encode-high"); n != 1 {
		t.Errorf("%d messages in encode-high, want 1", n)
	}
	path := strings.TrimPrefix(clip.Links.Self, "/api/v1")
	media := "clips/" + clip.Id + ".mp4"
	f.play(media).want(t, 404, "not_found")

	f.work(clip, func(claim *videostore.Claim) error {
		running := decode[api.Clip](t, f.call(http.MethodGet, path, nil), http.StatusOK)
		if running.State != api.ClipRunning || running.Links.Media != nil {
			t.Errorf("while it is made: %+v", running)
		}
		f.play(media).want(t, 404, "not_found")
		return claim.Commit(t.Context(), videostore.Commit{Output: engine.File{Blob: f.put("clip.mp4", f.blob), Bytes: int64(len(f.blob))}})
	})
	done := decode[api.Clip](t, f.call(http.MethodGet, path, nil), http.StatusOK)
	if done.State != api.ClipReady || done.Links.Media == nil || *done.Links.Media != "/v/"+string(f.id)+"/"+media || !done.CreatedAt.Equal(clip.CreatedAt) {
		t.Errorf("when it is made: %+v", done)
	}
	again := decode[api.Clip](t, f.call(http.MethodPost, f.clips(), body), http.StatusAccepted)
	if diff := cmp.Diff(done, again); diff != "" {
		t.Errorf("asked for again (-made +asked):\n%s", diff)
	}
	if n := f.messages("encode-high"); n != 1 {
		t.Errorf("asked for again: %d messages in encode-high, want 1", n)
	}

	whole := f.play(media)
	etag := whole.Header.Get("ETag")
	if whole.StatusCode != http.StatusOK || !bytes.Equal(whole.body, f.blob) || whole.Header.Get("Content-Type") != "video/mp4" ||
		whole.Header.Get("Cache-Control") != "public, max-age=31536000, immutable" || etag == "" {
		t.Errorf("clip: %d, %d bytes, %v", whole.StatusCode, len(whole.body), whole.Header)
	}
	part := f.play(media, "Range", "bytes=-20")
	if part.StatusCode != http.StatusPartialContent || !bytes.Equal(part.body, f.blob[980:]) || part.Header.Get("Content-Range") != "bytes 980-999/1000" {
		t.Errorf("the end of it: %d, %v", part.StatusCode, part.Header)
	}
	f.play(media, "Range", "bytes=1000-").want(t, 416, "range_not_satisfiable")
	if got := f.play(media, "If-None-Match", etag); got.StatusCode != http.StatusNotModified {
		t.Errorf("If-None-Match: %d", got.StatusCode)
	}
	head := f.send(f.request(http.MethodHead, f.public+"/v/"+string(f.id)+"/"+media, nil))
	if head.StatusCode != http.StatusOK || head.ContentLength != 1000 || len(head.body) != 0 {
		t.Errorf("HEAD: %d, length %d", head.StatusCode, head.ContentLength)
	}

	f.call(http.MethodPatch, "/videos/"+string(f.id), `{"visibility":"private"}`, "If-Match", "*").want(t, http.StatusOK, "")
	if got := f.play(media).Header.Get("Cache-Control"); !strings.HasPrefix(got, "private") {
		t.Errorf("a clip of a private video: Cache-Control %q", got)
	}
	f.call(http.MethodDelete, "/videos/"+string(f.id), nil).want(t, http.StatusAccepted, "")
	f.play(media).want(t, 404, "not_found")
	f.call(http.MethodGet, path, nil).want(t, 404, "not_found")
	f.call(http.MethodGet, f.clips(), nil).want(t, 404, "not_found")
	f.call(http.MethodPost, f.clips(), body).want(t, 404, "not_found")
}

// TestClipThatFailed says why, and is tried again when it is asked for again.
func TestClipThatFailed(t *testing.T) {
	t.Parallel()
	f := ready(t)
	body := map[string]any{"startSeconds": 0, "durationSeconds": 1}
	clip := decode[api.Clip](t, f.call(http.MethodPost, f.clips(), body), http.StatusAccepted)
	f.work(clip, func(c *videostore.Claim) error {
		return c.Fail(t.Context(), &engine.Failure{Code: engine.ProcessingFailed, Detail: "no"})
	})
	failed := decode[api.Clip](t, f.call(http.MethodGet, f.clips()+"/"+clip.Id, nil), http.StatusOK)
	if failed.State != api.ClipFailed || failed.Error == nil || failed.Error.Code != "processing_failed" {
		t.Errorf("failed clip: %+v", failed)
	}
	if v := decode[api.Video](t, f.call(http.MethodGet, "/videos/"+string(f.id), nil), http.StatusOK); v.State != engine.Ready || v.Error != nil {
		t.Errorf("its video: %+v", v)
	}
	again := decode[api.Clip](t, f.call(http.MethodPost, f.clips(), body), http.StatusAccepted)
	if again.Id != clip.Id || again.State != api.ClipQueued || again.Error != nil {
		t.Errorf("asked for again: %+v", again)
	}
	if n := f.messages("encode-high"); n != 2 {
		t.Errorf("%d messages in encode-high, want the lost one and a new one", n)
	}
}

func TestClipsOutsideOfTheVideo(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.call(http.MethodPost, f.clips(), `{"startSeconds":0,"durationSeconds":1}`).want(t, 409, "state_conflict")
	f.chunk(0, 2)
	f.chunk(1, 1)
	f.audio()
	f.call(http.MethodPost, f.clips(), `{"startSeconds":0,"durationSeconds":1}`).want(t, 409, "state_conflict")
	f.finish()
	for body, code := range map[string]string{
		`{"startSeconds":12,"durationSeconds":1}`:          "invalid_body",
		`{"startSeconds":11.5,"durationSeconds":1}`:        "invalid_body",
		`{"startSeconds":1e300,"durationSeconds":1}`:       "invalid_body",
		`{"startSeconds":-0.1,"durationSeconds":1}`:        "invalid_body",
		`{"startSeconds":0,"durationSeconds":0.09}`:        "invalid_body",
		`{"startSeconds":0,"durationSeconds":60.1}`:        "invalid_body",
		`{"startSeconds":0}`:                               "invalid_body",
		`{"startSeconds":"0","durationSeconds":1}`:         "invalid_body",
		`{"startSeconds":0,"durationSeconds":1,"sharp":1}`: "invalid_body",
		`{"startSeconds":NaN,"durationSeconds":1}`:         "invalid_json",
	} {
		if got := f.call(http.MethodPost, f.clips(), body); got.StatusCode != 400 || got.code(t) != code {
			t.Errorf("%s: %d %s, want 400 %s", body, got.StatusCode, got.body, code)
		}
	}
	f.call(http.MethodPost, "/videos/"+strings.Repeat("b", 26)+"/clips", `{"startSeconds":0,"durationSeconds":1}`).want(t, 404, "not_found")
	f.call(http.MethodGet, "/videos/"+strings.Repeat("b", 26)+"/clips", nil).want(t, 404, "not_found")
	if n := f.messages("encode-high"); n != 0 {
		t.Errorf("%d messages in encode-high, want none", n)
	}
	for clip, code := range map[string]string{"g1-0-1": "not_found", "x": "not_found", "G1-0-1": "invalid_parameter", "a%2Fb": "invalid_parameter"} {
		got := f.call(http.MethodGet, f.clips()+"/"+clip, nil)
		if got.code(t) != code {
			t.Errorf("clip %s: %d %s, want %s", clip, got.StatusCode, got.body, code)
		}
		f.play("clips/"+clip+".mp4").want(t, 404, "not_found")
	}
	f.play("clips/g1-0-1").want(t, 404, "not_found")
	if got := decode[api.ClipList](t, f.call(http.MethodGet, f.clips(), nil), http.StatusOK); len(got.Items) != 0 || got.Items == nil {
		t.Errorf("clips: %+v", got)
	}

	// The last frame, and to the very end.
	for _, body := range []string{`{"startSeconds":11.9,"durationSeconds":0.1}`, `{"startSeconds":0,"durationSeconds":12}`} {
		f.call(http.MethodPost, f.clips(), body).want(t, http.StatusAccepted, "")
	}
	first := decode[api.ClipList](t, f.call(http.MethodGet, f.clips()+"?limit=1", nil), http.StatusOK)
	if len(first.Items) != 1 || first.Items[0].Id != "g1-0-300" || first.NextPageToken == nil {
		t.Fatalf("first page: %+v", first)
	}
	second := decode[api.ClipList](t, f.call(http.MethodGet, f.clips()+"?limit=1&pageToken="+*first.NextPageToken, nil), http.StatusOK)
	if len(second.Items) != 1 || second.Items[0].Id != "g1-297-3" {
		t.Errorf("second page: %+v", second)
	}
	f.call(http.MethodGet, f.clips()+"?pageToken=AAAA", nil).want(t, 400, "invalid_page_token")
	f.call(http.MethodGet, f.clips()+"?limit=0", nil).want(t, 400, "invalid_parameter")
}

// TestTooManyClips: what anybody may ask for has a budget, and says when it is
// used up.
func TestTooManyClips(t *testing.T) {
	t.Parallel()
	f := newFixture(t, map[string]string{"WEBROLE_CLIPS_PER_VIDEO": "2", "WEBROLE_REPROCESSINGS": "1"})
	f.chunk(0, 2)
	f.chunk(1, 1)
	f.audio()
	f.finish()
	for n := range 2 {
		f.call(http.MethodPost, f.clips(), map[string]any{"startSeconds": n, "durationSeconds": 1}).want(t, http.StatusAccepted, "")
	}
	refused := f.call(http.MethodPost, f.clips(), `{"startSeconds":2,"durationSeconds":1}`)
	refused.want(t, http.StatusTooManyRequests, "too_busy")
	if refused.Header.Get("Retry-After") == "" {
		t.Error("too_busy without Retry-After")
	}
	f.call(http.MethodPost, f.clips(), `{"startSeconds":1,"durationSeconds":1}`).want(t, http.StatusAccepted, "") // it is there
	if n := f.messages("encode-high"); n != 2 {
		t.Errorf("%d messages in encode-high, want 2", n)
	}

	other := f.create(map[string]any{}).Id
	f.call(http.MethodPut, "/videos/"+other+"/content", movie(100)).want(t, http.StatusAccepted, "")
	f.makeReady(other)
	f.call(http.MethodPost, "/videos/"+string(f.id)+"/reprocess", nil).want(t, http.StatusAccepted, "")
	f.call(http.MethodPost, "/videos/"+other+"/reprocess", nil).want(t, http.StatusTooManyRequests, "too_busy")
	f.call(http.MethodPost, "/videos/"+string(f.id)+"/reprocess", nil).want(t, http.StatusConflict, "state_conflict")
}

// A clip whose plan cannot be read hides no other.
func TestClipWithoutPlan(t *testing.T) {
	t.Parallel()
	f := ready(t)
	good := decode[api.Clip](t, f.call(http.MethodPost, f.clips(), `{"startSeconds":0,"durationSeconds":1}`), http.StatusAccepted)
	rows := tablestore.New(f.account, workflow.VideosTable)
	for _, row := range []tablestore.Entity{
		{PartitionKey: string(f.id), RowKey: "CLIP:00002:000000000:000025", Props: map[string]any{"State": "done"}},
		{PartitionKey: string(f.id), RowKey: "PLAN:00002", Props: map[string]any{"Doc": "{"}},
	} {
		if _, err := rows.Insert(t.Context(), row); err != nil {
			t.Fatal(err)
		}
	}
	listed := decode[api.ClipList](t, f.call(http.MethodGet, f.clips(), nil), http.StatusOK)
	if len(listed.Items) != 1 || listed.Items[0].Id != good.Id {
		t.Errorf("listed: %+v", listed.Items)
	}
}

func init() {
	parts = append(parts, part{
		routes: `seers GET /api/v1/videos/:id/clips
clippers POST /api/v1/videos/:id/clips
seers GET /api/v1/videos/:id/clips/:clip
`,
		visits: []visit{
			{"createClip", func(w *world) func() answer {
				w.endClips()
				return func() answer {
					length := 2 + float64(w.runners)/1000 // another clip every time
					return w.call(http.MethodPost, "/videos/"+string(w.id)+"/clips", map[string]any{"startSeconds": 1, "durationSeconds": length})
				}
			}},
			{"listClips", get("/videos/{id}/clips?limit=1")},
			{"getClip", get("/videos/{id}/clips/{clip}")},
			{"playClip", get("/v/{id}/clips/{clip}.mp4")},
		},
		lists: []list{
			{"listClips", "/videos/{id}/clips", []damage{{workflow.VideosTable, "{id} CLIP:00001:000000000:", 1}}},
		},
		world: func(w *world) {
			clip := decode[api.Clip](w.t, w.call(http.MethodPost, "/videos/"+string(w.id)+"/clips", `{"startSeconds":0,"durationSeconds":1}`), http.StatusAccepted)
			w.words = append(w.words, "{clip}", clip.Id)
			w.work(clip, func(claim *videostore.Claim) error {
				return claim.Commit(w.t.Context(), videostore.Commit{Output: engine.File{Blob: w.put("clip.mp4", w.blob), Bytes: int64(len(w.blob))}})
			})
		},
		library: func(l *library) {
			l.call(http.MethodPost, "/videos/"+string(l.id)+"/clips", `{"startSeconds":2,"durationSeconds":1}`).want(l.t, http.StatusAccepted, "")
		},
	})
}

// endClips ends the clips that are still to be made.
func (w *world) endClips() {
	w.t.Helper()
	made, _, err := w.videos.Requests(w.t.Context(), w.id, workflow.StepClip, 100, "", nil)
	for _, clip := range made {
		if err == nil && clip.State != engine.RunDone {
			err = w.videos.FailStep(w.t.Context(), clip.Key, &engine.Failure{Code: "test", Detail: "test"})
		}
	}
	if err != nil {
		w.t.Fatal(err)
	}
}
