package main

import (
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cutroom/cutroom/shared/quotas"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

// refusedFor fails unless a quota refused, with a status and the rest of the quota.
func (a answer) refusedFor(t *testing.T, status int, name string, left int64) {
	t.Helper()
	a.want(t, status, "quota_exceeded")
	var p api.Problem
	if err := json.Unmarshal(a.body, &p); err != nil || p.Quota == nil || p.Quota.Name != name || p.Quota.Left != left {
		t.Errorf("%s: want quota %s with %d left", a.body, name, left)
	}
	if (a.Header.Get("Retry-After") != "") != (status == http.StatusTooManyRequests) {
		t.Errorf("%d with Retry-After %q", status, a.Header.Get("Retry-After"))
	}
}

// beside starts another web role on the same storage.
func (c *community) beside(variables map[string]string) *community {
	c.t.Helper()
	env := map[string]string{"WEBROLE_TOKEN": testToken, "WEBROLE_ANONYMOUS": "on", "WEBROLE_PUBLIC_OPS": "on", "CUTROOM_PREFIX": c.account.Prefix()}
	for name, value := range variables {
		env[name] = value
	}
	return &community{start(c.t, env), c.keys}
}

// Two web roles, and many requests at once for the last places: as many get in as there
// are places, and the others are told which quota it is.
func TestLastPlaceIsGivenOnce(t *testing.T) {
	t.Parallel()
	limits := map[string]string{"WEBROLE_QUOTA_WAITING": "5"}
	one := openCommunity(t, limits)
	two := one.beside(limits)
	var in, refused atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			role := []*community{one, two}[i%2]
			switch a := role.as(owner, "POST", "/api/v1/videos", `{"title":"a"}`); a.StatusCode {
			case http.StatusCreated:
				in.Add(1)
			case http.StatusTooManyRequests:
				refused.Add(1)
			default:
				t.Errorf("%d %s", a.StatusCode, a.body)
			}
		})
	}
	wg.Wait()
	if in.Load() != 5 || refused.Load() != 11 {
		t.Errorf("%d got in and %d were refused, want 5 and 11", in.Load(), refused.Load())
	}
	two.as(owner, "POST", "/api/v1/videos", `{"title":"a"}`).refusedFor(t, 429, quotas.Waiting, 0)
	two.as(stranger, "POST", "/api/v1/videos", `{"title":"a"}`).want(t, 201, "")
}

// Stored bytes are reserved by the announcement, or else when the upload begins, and
// nothing of one that is refused stays.
func TestStoredBytesHaveAQuota(t *testing.T) {
	t.Parallel()
	c := openCommunity(t, map[string]string{"WEBROLE_QUOTA_STORED": "1"})
	const gib = 1 << 30
	c.as(owner, "POST", "/api/v1/videos", map[string]any{"title": "a", "sizeBytes": gib - 100}).want(t, 201, "")
	c.as(owner, "POST", "/api/v1/videos", map[string]any{"title": "a", "sizeBytes": 101}).refusedFor(t, 403, quotas.Stored, 100)
	silent := c.announce(owner, video.Public) // without a size
	path := "/api/v1/videos/" + silent
	c.as(owner, "PUT", path+"/content", movie(101)).refusedFor(t, 403, quotas.Stored, 100)
	c.as(owner, "POST", path+"/upload", map[string]any{"sizeBytes": 101}).refusedFor(t, 403, quotas.Stored, 100)

	if left := c.blobsOf(silent); left != nil {
		t.Errorf("refused uploads left %v", left)
	}
	c.as(owner, "PUT", path+"/content", movie(100)).want(t, 202, "")
	c.as(stranger, "POST", "/api/v1/videos", map[string]any{"title": "a", "sizeBytes": gib}).want(t, 201, "")
}

// A role that can't write the video after it reserved its place leaves a reservation,
// which upkeep finds by the mark (TestReconcilerGivesBackWhatADeadRequestReserved), and
// no second one when the client tries again with its Idempotency-Key.
func TestReservationOfABrokenRequest(t *testing.T) {
	t.Parallel()
	c := openCommunity(t, map[string]string{"WEBROLE_QUOTA_WAITING": "1"})
	announce := func() answer {
		return c.as(owner, "POST", "/api/v1/videos", `{"title":"a"}`, "Idempotency-Key", "once")
	}
	first := decode[api.Video](t, announce(), http.StatusCreated)
	if again := decode[api.Video](t, announce(), http.StatusCreated); again.Id != first.Id {
		t.Error("a repetition made another video")
	}
	c.as(owner, "POST", "/api/v1/videos", `{"title":"a"}`).refusedFor(t, 429, quotas.Waiting, 0)
}

// Owners find all that is theirs, and nothing else, newest first.
func TestMyVideos(t *testing.T) {
	t.Parallel()
	c := openCommunity(t, nil)
	var want []string
	for _, v := range []video.Visibility{video.Public, video.Unlisted, video.Private} {
		want = append([]string{c.announce(owner, v)}, want...)
		c.announce(stranger, v)
	}
	gone := c.announce(owner, video.Private)
	c.as(owner, "DELETE", "/api/v1/videos/"+gone, nil).want(t, 202, "")
	for _, who := range []string{owner, lookerOn} { // one owner, two keys
		var got []string
		for token := ""; ; {
			page := decode[api.VideoList](t, c.as(who, "GET", "/api/v1/videos?owner=me&limit=2&pageToken="+token, nil), http.StatusOK)
			for _, v := range page.Items {
				got = append(got, v.Id)
			}
			if page.NextPageToken == nil {
				break
			}
			token = *page.NextPageToken
		}
		if len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
			t.Errorf("%s finds %v, want %v", who, got, want)
		}
	}
	if list := decode[api.VideoList](t, c.as(viewer, "GET", "/api/v1/videos?owner=me", nil), http.StatusOK); len(list.Items) != 0 {
		t.Errorf("a viewer owns %v", list.Items)
	}
	c.as(visitor, "GET", "/api/v1/videos?owner=me", nil).want(t, 401, "unauthorized")
	c.as(owner, "GET", "/api/v1/videos?owner=ann", nil).want(t, 400, "invalid_parameter")
	c.as(owner, "GET", "/api/v1/videos?owner=me&channel=main", nil).want(t, 400, "invalid_parameter")
	page := decode[api.VideoList](t, c.as(owner, "GET", "/api/v1/videos?owner=me&limit=1", nil), http.StatusOK)
	c.as(stranger, "GET", "/api/v1/videos?owner=me&pageToken="+*page.NextPageToken, nil).want(t, 400, "invalid_page_token")
}

func init() {
	parts = append(parts, part{
		routes: "viewers GET /mine\n",
		visits: []visit{{"listVideos", get("/videos?owner=me&limit=5")}},
		lists: []list{
			{"listVideos", "/videos?owner=me", []damage{{quotas.Table, "+local VIDEO:strange", 0}, {workflow.VideosTable, "{other} META", 1}}},
		},
	})
}
