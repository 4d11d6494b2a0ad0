package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// TestViews: every view counts, also when many watch at once (S2), and a video
// that is gone has none.
func TestViews(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	id := s.create(map[string]any{"title": "Harbour"}).Id
	path := "/videos/" + id + "/views"
	const viewers = 20
	done := make(chan int, viewers)
	for range viewers {
		go func() { done <- s.call(http.MethodPost, path, nil).StatusCode }()
	}
	for range viewers {
		if status := <-done; status != http.StatusNoContent {
			t.Errorf("a view was answered with %d", status)
		}
	}
	got := decode[api.Views](t, s.call(http.MethodGet, path, nil), http.StatusOK)
	today := time.Now().UTC().Format("2006-01-02")
	if got.Total != viewers || len(got.Days) == 0 || got.Days[0].Date != today {
		t.Errorf("%d views are %+v, want them today, %s", viewers, got, today)
	}
	if s.call(http.MethodDelete, "/videos/"+id, nil).StatusCode != http.StatusAccepted {
		t.Fatal("the video cannot be deleted")
	}
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		s.call(method, path, nil).want(t, http.StatusNotFound, problem.NotFound.Name)
	}
}
