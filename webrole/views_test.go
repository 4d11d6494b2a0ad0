package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/views"
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

func init() {
	parts = append(parts, part{
		routes: `seers GET /api/v1/videos/:id/views
seers POST /api/v1/videos/:id/views
`,
		visits: []visit{
			{"countView", func(w *world) func() answer {
				for range 80 { // every suffix has its row
					w.call(http.MethodPost, "/videos/"+string(w.id)+"/views", nil).want(w.t, http.StatusNoContent, "")
				}
				return func() answer { return w.call(http.MethodPost, "/videos/"+string(w.id)+"/views", nil) }
			}},
			{"getViews", get("/videos/{id}/views")},
		},
		lists: []list{
			{"getViews", "/videos/{id}/views", []damage{
				{views.Table, "~{id} DAY:8204694399999", 1}, {views.Table, "~{id} ALL", 0}, {views.Table, "2026-11-21.1 {id}", 1},
				{views.Table, "+DAYS strange", 0}, {views.Table, "+~{id} DAY:strange", 0},
			}},
		},
		library: func(l *library) {
			day := func(pk, rk string, views int64) tablestore.Entity {
				return tablestore.Entity{PartitionKey: pk, RowKey: rk, Props: map[string]any{"Views": views}}
			}
			l.write(views.Table, day("~"+string(l.id), "ALL", 3), day("~"+string(l.id), "DAY:8204607999999", 1), day("~"+string(l.id), "DAY:8204694399999", 2),
				day("2026-11-21.1", string(l.id), 1), tablestore.Entity{PartitionKey: "DAYS", RowKey: "2026-11-21"})
		},
		busy: views.ErrContended,
	})
}
