package main

import (
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/indexrows"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

// TestSearchAnswers: every parameter reaches the index, every finding the client.
func TestSearchAnswers(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	for _, v := range []map[string]any{
		{"title": "Old harbour", "description": "Filmed from a kite", "channel": "Sea", "tags": []string{"boats"}, "actors": []string{"Ann"}},
		{"title": "Night", "description": "The harbours", "channel": "Sea", "tags": []string{"boats", "dark"}, "actors": []string{"Bo"}},
	} {
		made := s.create(v)
		s.makeReady(made.Id)
		s.index(made.Id)
	}
	search := func(query string) api.SearchResult {
		t.Helper()
		return decode[api.SearchResult](t, s.call(http.MethodGet, "/search?"+query, nil), http.StatusOK)
	}
	titles := func(r api.SearchResult) (list []string) {
		for _, v := range r.Items {
			list = append(list, v.Title)
		}
		return list
	}
	for query, want := range map[string][]string{
		"q=harbour":                      {"Night", "Old harbour"},
		"q=harbour&sort=newest":          {"Night", "Old harbour"},
		"q=harbour&sort=best":            {"Old harbour", "Night"},
		"description=harbour":            {"Night"},
		"description=kite&title=harbour": {"Old harbour"},
		"q=harbour&tag=dark":             {"Night"},
	} {
		r := search(query)
		if diff := cmp.Diff(want, titles(r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
		if r.DidYouMean != nil || r.Facets != nil {
			t.Errorf("%s: not asked for: %+v, %+v", query, r.DidYouMean, r.Facets)
		}
	}
	r := search("q=old%20harbuor&channel=sea")
	if diff := cmp.Diff([]string{"Old harbour"}, titles(r)); diff != "" {
		t.Errorf("a typo (-want +got):\n%s", diff)
	}
	q, channel := "old harbour", "sea"
	if diff := cmp.Diff(&api.SearchWords{Q: q, Channel: channel}, r.DidYouMean); diff != "" {
		t.Errorf("did you mean (-want +got):\n%s", diff)
	}
	want := &api.Facets{
		Tags:     []api.Facet{{Value: "boats", Count: 2}, {Value: "dark", Count: 1}},
		Channels: []api.Facet{{Value: "Sea", Count: 2}}, Actors: []api.Facet{{Value: "Bo", Count: 1}, {Value: "Ann", Count: 1}},
		HitsCounted: 2, Complete: true,
	}
	if diff := cmp.Diff(want, search("q=harbour&facets=true&limit=1").Facets); diff != "" {
		t.Errorf("facets (-want +got):\n%s", diff)
	}
	want = &api.Facets{Tags: []api.Facet{}, Channels: []api.Facet{}, Actors: []api.Facet{}, Complete: true}
	if diff := cmp.Diff(want, search("q=nothing&facets=true").Facets); diff != "" {
		t.Errorf("facets of nothing (-want +got):\n%s", diff)
	}
	s.call(http.MethodGet, "/search?q=x&sort=oldest", nil).want(t, http.StatusBadRequest, "invalid_parameter")
}

func init() {
	parts = append(parts, part{
		routes: `viewers GET /api/v1/search
`,
		visits: []visit{
			{"searchVideos", get("/search?q=needle&limit=5")},
			{"searchVideos", get("/search?q=needle+harb&limit=5&sort=best")},
			{"searchVideos", get("/search?q=needle&limit=5&facets=true")},
			{"searchVideos", get("/search?q=neeedle&limit=5")},
			{"searchVideos", get("/search?actor=ann&tag=needle&channel=harbour&limit=5")},
			{"searchVideos", get("/search?q=%22needle+in+the%22&limit=5")},
		},
		lists: []list{
			{"searchVideos", "/search?q=harbour", []damage{
				{searchindex.PostingsTable, ":harbour.* .*__{other}", 1}, {searchindex.TermsTable, "ha harbour", everything},
				{searchindex.VariantsTable, "=.*__harbour", 0}, {workflow.VideosTable, "{other} META", 1},
			}},
			{"searchVideos", "/search?q=harb&facets=true&sort=best", []damage{
				{
					searchindex.PostingsTable, ":harbour.* .*__{other}", 1,
				}, {
					searchindex.TermsTable, "ha harbour", everything,
				}, {
					workflow.VideosTable, "{other} META", 1,
				},
			}},
			{"searchVideos", "/search?q=harbuor", []damage{
				{searchindex.VariantsTable, "~.*__harbour", everything}, {searchindex.PostingsTable, ":harbour.* .*__{other}", 1},
				{searchindex.TermsTable, "ha harbour", everything}, {workflow.VideosTable, "{other} META", 1},
			}},
			{"searchVideos", "/search?q=%22by+the+harbour%22", []damage{
				{searchindex.PostingsTable, "~{other} TEXT", 1}, {workflow.VideosTable, "{other} META", 1},
			}},
		},
		grow: func(w *world, all []video.Video, _ int) {
			if err := searchindex.New(w.account).Load(w.t.Context(), all); err != nil {
				w.t.Fatal(err)
			}
		},
		index: func(s *server, id engine.ID, current indexrows.Current) error {
			return searchindex.New(s.account).Sync(s.t.Context(), id, current)
		},
	})
}

// TestSearchPages: pages by opaque tokens, with their cost (T5, T7).
func TestSearchPages(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	titles, ids := s.rivers()
	newest := slices.Clone(titles)
	slices.Reverse(newest)
	for _, c := range []struct {
		query url.Values
		want  []string
	}{
		{url.Values{"q": {"water riv"}, "limit": {"2"}}, newest},
		{url.Values{"title": {"bravo"}, "actor": {"ann"}}, []string{"Bravo river"}},
		{url.Values{"q": {"alpha bravo"}}, nil},
	} {
		if diff := cmp.Diff(c.want, s.pages("/search", c.query)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.query, diff)
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

	// The index follows later; the answer follows the truth at once.
	s.call(http.MethodDelete, "/videos/"+ids[0], nil).want(t, http.StatusAccepted, "")
	s.call(http.MethodPatch, "/videos/"+ids[1], `{"visibility":"private"}`, "If-Match", "*").want(t, http.StatusOK, "")
	if got := s.pages("/search", url.Values{"q": {"river"}}); len(got) != 3 {
		t.Errorf("deleted and private videos are found: %v", got)
	}
}
