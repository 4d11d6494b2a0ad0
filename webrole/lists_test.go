package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/registrations"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

// index does what the index step does.
func (s *server) index(id string) {
	s.t.Helper()
	if err := s.reindex(id); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) reindex(id string) error {
	current := func(ctx context.Context) (video.Video, bool, error) {
		rec, err := s.videos.Get(ctx, engine.ID(id))
		if errors.Is(err, engine.ErrNotFound) {
			return video.Video{}, false, nil
		}
		return rec.Subject, err == nil, err
	}
	ctx := s.t.Context()
	return errors.Join(
		catalog.New(s.account).Sync(ctx, engine.ID(id), current),
		searchindex.New(s.account).Sync(ctx, engine.ID(id), current),
		registrations.New(s.account).Sync(ctx, engine.ID(id), current))
}

// makeReady turns a new video into one that lists show.
func (s *server) makeReady(id string) {
	s.t.Helper()
	_, err := s.videos.Change(s.t.Context(), engine.ID(id), "", func(v *video.Video) ([]engine.OutboxMessage, error) {
		v.State, v.Playable, v.Serving = engine.Ready, true, 1
		return nil, nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// pages follows page tokens to the end and returns the titles.
func (s *server) pages(path string, query url.Values) []string {
	s.t.Helper()
	var titles []string
	for {
		page := decode[api.SearchResult](s.t, s.call(http.MethodGet, path+"?"+query.Encode(), nil), http.StatusOK)
		for _, v := range page.Items {
			titles = append(titles, v.Title)
		}
		if page.NextPageToken == nil {
			return titles
		}
		query.Set("pageToken", *page.NextPageToken)
	}
}

// TestListsAndSearch: pages by opaque tokens, in both orders, with their cost (T5, T7).
func TestListsAndSearch(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	var ids []string
	titles := []string{"Delta river", "Alpha river", "Charlie river", "Bravo river", "Echo river"}
	for _, title := range titles {
		v := s.create(map[string]any{"title": title, "channel": "O'Brien & Söhne/1", "tags": []string{"water"}, "actors": []string{"Ann Actor"}})
		s.makeReady(v.Id)
		s.index(v.Id)
		ids = append(ids, v.Id)
	}
	newest := slices.Clone(titles)
	slices.Reverse(newest)
	byTitle := slices.Clone(titles)
	slices.Sort(byTitle)
	channel := func(sort string) url.Values {
		return url.Values{"channel": {"O'Brien & Söhne/1"}, "sort": {sort}, "limit": {"2"}}
	}
	for name, c := range map[string]struct {
		path  string
		query url.Values
		want  []string
	}{
		"recent":           {"/videos", url.Values{"limit": {"2"}}, newest},
		"channel, newest":  {"/videos", channel("newest"), newest},
		"channel, title":   {"/videos", channel("title"), byTitle},
		"search, all":      {"/search", url.Values{"q": {"water riv"}, "limit": {"2"}}, newest},
		"search, field":    {"/search", url.Values{"title": {"bravo"}, "actor": {"ann"}}, []string{"Bravo river"}},
		"search, no match": {"/search", url.Values{"q": {"alpha bravo"}}, nil},
	} {
		if diff := cmp.Diff(c.want, s.pages(c.path, c.query)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	found := decode[api.SearchResult](t, s.call(http.MethodGet, "/search?q=river&limit=1", nil), http.StatusOK)
	if found.EntitiesRead == 0 || found.Requests == 0 || found.NextPageToken == nil {
		t.Errorf("a search says its cost: %+v", found)
	}
	// A token is good for its own query only.
	token := url.QueryEscape(*found.NextPageToken)
	s.call(http.MethodGet, "/search?q=water&pageToken="+token, nil).want(t, 400, "invalid_page_token")
	s.call(http.MethodGet, "/videos?pageToken="+token, nil).want(t, 400, "invalid_page_token")

	// The index follows later; lists follow the truth at once.
	s.call(http.MethodDelete, "/videos/"+ids[0], nil).want(t, http.StatusAccepted, "")
	s.call(http.MethodPatch, "/videos/"+ids[1], `{"visibility":"private"}`, "If-Match", "*").want(t, http.StatusOK, "")
	if got := s.pages("/search", url.Values{"q": {"river"}}); len(got) != 3 {
		t.Errorf("deleted and private videos are found: %v", got)
	}
	if got := s.pages("/videos", url.Values{}); len(got) != 3 {
		t.Errorf("deleted and private videos are listed: %v", got)
	}
}

// TestManyAtOnce: a page of the largest size is read with bounded concurrency.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	const n = 12
	for i := range n {
		v := s.create(map[string]any{"title": fmt.Sprintf("Number %02d", i)})
		s.makeReady(v.Id)
		s.index(v.Id)
	}
	if got := s.pages("/videos", url.Values{"limit": {"100"}}); len(got) != n || got[0] != "Number 11" {
		t.Errorf("listed %v", got)
	}
}
