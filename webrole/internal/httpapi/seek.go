package httpapi

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

const (
	maxSeekRequests = 4096 // parts that are remembered because a viewer asked for them
	// askAgainAfter is how long such a part is not asked for again: a page repeats its
	// request until the part is there.
	askAgainAfter = 30 * time.Second
)

// SeekVideo implements POST /videos/{id}/seek. What was asked for is sent before the answer:
// a client without one asks again.
func (s *Server) SeekVideo(c *gin.Context, id api.ID) {
	handle(c, http.StatusOK, func(ctx context.Context) (out api.Seek, _ error) {
		body, err := readJSON[api.SeekRequest](s, c)
		if err != nil {
			return out, err
		}
		view, err := s.Videos.View(ctx, id)
		if err != nil {
			return out, err
		}
		out, err = place(view, body.At)
		if err != nil || out.Made && !out.Preview || view.Video.Playing() != view.Video.Generation {
			return out, err
		}
		return out, s.ask(ctx, view, body.At)
	})
}

// ask sends the work that a second of a video needs, unless this web role sent it a
// moment ago.
func (s *Server) ask(ctx context.Context, view videostore.View, second float64) error {
	wanted := slices.DeleteFunc(view.Wanted(second), func(i videostore.OutboxMessage) bool {
		_, recently := s.asked.Get(i.Key)
		return recently
	})
	if len(wanted) == 0 {
		return nil
	}
	if err := s.Videos.Resend(ctx, view.Record, wanted); err != nil {
		return err
	}
	for _, i := range wanted {
		s.asked.Add(i.Key, true, time.Now())
	}
	return nil
}

// place tells which playlist shows a second of what plays: the whole one as far as it
// leads, else one that begins with the chunk of that second, or with a preview of it.
func place(view videostore.View, second float64) (api.Seek, error) {
	base := "/v/" + string(view.Video.ID) + "/"
	address := func(from int) string { return base + playlist.Address("master", from, false) }
	generation := view.Video.Playing()
	if _, whole, err := view.Whole(generation); whole || err != nil {
		return api.Seek{Master: address(0), Made: true}, err
	}
	p, err := view.Presentation(generation)
	if err != nil {
		return api.Seek{}, err
	}
	chunk, planned := p.Plan.ChunkAt(second)
	if !planned {
		return api.Seek{}, problem.New(problem.NotYet, "Nothing can be watched yet.").After(1)
	}
	if chunk < len(p.Leading()) && p.Ready() {
		return api.Seek{Master: address(0), Made: true}, nil
	}
	p.From = chunk
	found := api.Seek{Master: address(chunk), From: p.Plan.Start(chunk), Made: p.Ready()}
	if !found.Made && p.Preview().Ready() {
		found.Master, found.Made, found.Preview = base+playlist.Address("master", chunk, true), true, true
	}
	return found, nil
}
