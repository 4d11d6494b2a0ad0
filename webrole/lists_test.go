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
	err := catalog.New(s.account).Sync(s.t.Context(), engine.ID(id), current)
	for _, p := range parts {
		if p.index != nil {
			err = errors.Join(err, p.index(s, engine.ID(id), current))
		}
	}
	return err
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
		page := decode[api.VideoList](s.t, s.call(http.MethodGet, path+"?"+query.Encode(), nil), http.StatusOK)
		for _, v := range page.Items {
			titles = append(titles, v.Title)
		}
		if page.NextPageToken == nil {
			return titles
		}
		query.Set("pageToken", *page.NextPageToken)
	}
}

// rivers makes videos that lists show.
func (s *server) rivers() (titles, ids []string) {
	titles = []string{"Delta river", "Alpha river", "Charlie river", "Bravo river", "Echo river"}
	for _, title := range titles {
		v := s.create(map[string]any{"title": title, "channel": "O'Brien & Söhne/1", "tags": []string{"water"}, "actors": []string{"Ann Actor"}})
		s.makeReady(v.Id)
		s.index(v.Id)
		ids = append(ids, v.Id)
	}
	return titles, ids
}

// TestLists: pages by opaque tokens, in both orders (T5).
func TestLists(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	titles, ids := s.rivers()
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
		"recent":          {"/videos", url.Values{"limit": {"2"}}, newest},
		"channel, newest": {"/videos", channel("newest"), newest},
		"channel, title":  {"/videos", channel("title"), byTitle},
	} {
		if diff := cmp.Diff(c.want, s.pages(c.path, c.query)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	// The index follows later; lists follow the truth at once.
	s.call(http.MethodDelete, "/videos/"+ids[0], nil).want(t, http.StatusAccepted, "")
	s.call(http.MethodPatch, "/videos/"+ids[1], `{"visibility":"private"}`, "If-Match", "*").want(t, http.StatusOK, "")
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
