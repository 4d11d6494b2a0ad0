package lab

import (
	"context"
	"crypto/rand"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/scenes"
	"github.com/cutroom/cutroom/shared/scene"
)

// Bounds of scenes.
const (
	maxPlaying = 4               // at a time
	keptRuns   = 20              // whose events can be asked for
	longPoll   = 3 * time.Second // a request waits for an event so long
)

func init() {
	further = append(further, func(b *bench, mux *http.ServeMux) {
		h := &theatre{bench: b}
		mux.HandleFunc("GET "+base+"/scenes", listScenes)
		mux.HandleFunc("POST "+base+"/scenes/{name}", h.play)
		mux.HandleFunc("GET "+base+"/scene-runs/{run}", h.told)
	})
}

// theatre is where the scenes play.
type theatre struct {
	bench *bench
	mu    sync.Mutex
	runs  []*run // oldest first
}

// run is a scene that plays, or has played.
type run struct {
	id string

	mu      sync.Mutex
	events  []scenes.Event
	changed chan struct{} // closed with the next event
	over    bool
}

func (r *run) tell(e scenes.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	r.over = e.Kind == scenes.End
	close(r.changed)
	r.changed = make(chan struct{})
}

// after returns the events after that number, and what is closed when there are more.
func (r *run) after(number int) (events []scenes.Event, more <-chan struct{}, over bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	number = min(max(number, 0), len(r.events))
	return r.events[number:], r.changed, r.over
}

func listScenes(w http.ResponseWriter, _ *http.Request) {
	list := client.LabScenes{Items: []client.LabScene{}}
	for _, sc := range scene.All() {
		item := client.LabScene{Name: sc.Name, Title: sc.Title, Rows: sc.Rows, Learn: sc.Learn, Page: sc.Page, Questions: []client.LabQuestion{}}
		for _, q := range sc.Questions {
			question := client.LabQuestion{Name: q.Name, Text: q.Text}
			for _, o := range q.Options {
				question.Options = append(question.Options, client.LabOption{Value: o.Value, Text: o.Text})
			}
			item.Questions = append(item.Questions, question)
		}
		list.Items = append(list.Items, item)
	}
	write(w, http.StatusOK, list)
}

func (h *theatre) play(w http.ResponseWriter, r *http.Request) {
	sc, known := scene.Find(r.PathValue("name"))
	if !known {
		fail(w, refuse(http.StatusNotFound, "scene_not_found", "There is no scene of this name."))
		return
	}
	var asked client.LabPlay
	if err := read(w, r, &asked); err != nil {
		fail(w, err)
		return
	}
	var answers map[string]string
	if asked.Answers != nil {
		answers = *asked.Answers
	}
	if err := scenes.CheckAnswers(sc, answers); err != nil {
		fail(w, invalid("%v.", err))
		return
	}
	begun := &run{id: rand.Text(), changed: make(chan struct{})}
	if !h.keep(begun) {
		fail(w, conflict("%d scenes play already.", maxPlaying))
		return
	}
	h.bench.begin(func(ctx context.Context) {
		_ = scenes.Run(ctx, h.bench.cfg, sc.Name, answers, begun.tell) // its last event says the same
	})
	write(w, http.StatusAccepted, client.LabSceneBegun{Run: begun.id})
}

// keep remembers a run, unless too many play. The oldest is forgotten.
func (h *theatre) keep(next *run) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	playing := 0
	for _, r := range h.runs {
		if _, _, over := r.after(0); !over {
			playing++
		}
	}
	if playing >= maxPlaying {
		return false
	}
	h.runs = append(h.runs, next)
	if len(h.runs) > keptRuns {
		h.runs = h.runs[1:]
	}
	return true
}

// told answers the events after the last one that the caller has, and waits a
// little when there are none.
func (h *theatre) told(w http.ResponseWriter, r *http.Request) {
	after, err := strconv.Atoi("0" + r.URL.Query().Get("after"))
	if err != nil {
		fail(w, refuse(http.StatusBadRequest, "invalid_parameter", "after is the number of an event."))
		return
	}
	h.mu.Lock()
	var asked *run
	for _, kept := range h.runs {
		if kept.id == r.PathValue("run") {
			asked = kept
		}
	}
	h.mu.Unlock()
	if asked == nil {
		fail(w, refuse(http.StatusNotFound, "run_not_found", "There is no such run, or it was long ago."))
		return
	}
	events, more, over := asked.after(after)
	if len(events) == 0 && !over {
		select {
		case <-more:
		case <-time.After(longPoll):
		case <-r.Context().Done():
		}
		events, _, _ = asked.after(after)
	}
	write(w, http.StatusOK, struct {
		Events []scenes.Event `json:"events"`
	}{append([]scenes.Event{}, events...)})
}
