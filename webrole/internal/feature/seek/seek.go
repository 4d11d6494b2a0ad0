// Package seek has what a viewer jumps to made first, and says which playlist shows it.
package seek

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/jellydator/ttlcache/v3"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/httpapi"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/recent"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

type server struct {
	*httpapi.Server
	asked *ttlcache.Cache[engine.Key, bool] // parts that viewers went to
}

// New returns the feature.
func New(core *httpapi.Server) web.Feature {
	return feature(&server{core, recent.NewMemory[engine.Key, bool](maxSeekRequests, askAgainAfter)})
}

const (
	maxSeekRequests = 4096 // parts that are remembered because a viewer asked for them
	// askAgainAfter is how long such a part is not asked for again: a page repeats its
	// request until the part is there.
	askAgainAfter = 30 * time.Second
)

// SeekVideo implements POST /videos/{id}/seek. What was asked for is sent before the answer:
// a client without one asks again.
func (s *server) SeekVideo(c *gin.Context, id api.ID) {
	web.Handle(c, http.StatusOK, func(ctx context.Context) (out api.Seek, _ error) {
		body, err := web.ReadJSON[api.SeekRequest](c)
		if err != nil {
			return out, err
		}
		view, err := s.Videos.View(ctx, id)
		if err != nil {
			return out, err
		}
		out, shown, err := s.place(view, body.At)
		if err != nil || out.Made && !out.Preview || view.Subject.Playing() != view.Subject.Generation {
			return out, err
		}
		return out, s.ask(ctx, view, videostore.Wanted(view, body.At, shown))
	})
}

// ask sends the work that a second of a video needs, but for what this web role sent a
// moment ago.
func (s *server) ask(ctx context.Context, view videostore.View, wanted []engine.OutboxMessage) error {
	wanted = slices.DeleteFunc(wanted, func(i engine.OutboxMessage) bool { return s.asked.Has(i.Key) })
	if len(wanted) == 0 {
		return nil
	}
	if err := s.Videos.Resend(ctx, view.Record, wanted); err != nil {
		return err
	}
	for _, i := range wanted {
		s.asked.Set(i.Key, true, ttlcache.DefaultTTL)
	}
	return nil
}

// place tells which playlist shows a second of what plays: the whole one as far as it
// leads, else one that begins with the chunk of that second, or with a preview of it. shown are
// the chunks that have one.
func (s *server) place(view videostore.View, second float64) (found api.Seek, shown map[int]bool, _ error) {
	base := "/v/" + string(view.Subject.ID) + "/"
	address := func(from int) string { return base + playlist.Address("master", from, false) }
	generation := view.Subject.Playing()
	if whole, err := videostore.Whole(view, generation); whole != nil || err != nil {
		return api.Seek{Master: address(0), Made: true}, nil, err
	}
	p, err := videostore.Presentation(view, generation)
	if err != nil {
		return found, nil, err
	}
	chunk, planned := p.Plan.ChunkAt(second)
	if !planned {
		return found, nil, problem.New(problem.NotYet, "Nothing can be watched yet.").After(1)
	}
	if chunk < len(p.Leading()) && p.Ready() {
		return api.Seek{Master: address(0), Made: true}, nil, nil
	}
	p.From = chunk
	found = api.Seek{Master: address(chunk), From: p.Plan.Start(chunk), Made: p.Ready()}
	preview, shown, err := s.Videos.Preview(view, p)
	if !found.Made && preview.Ready() {
		found.Master, found.Made, found.Preview = base+playlist.Address("master", chunk, true), true, true
	}
	return found, shown, err
}
