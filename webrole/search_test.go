package main

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

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
