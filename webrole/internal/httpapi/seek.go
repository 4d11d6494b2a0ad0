package httpapi

import (
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// askAgainAfter is how long a part that a viewer asked for is not asked for again: a
// page repeats its request until the part is there.
const askAgainAfter = 30 * time.Second

// maxAsked is how many parts are remembered that viewers asked for.
const maxAsked = 4096

// asked is which parts viewers went to, and when they were asked for.
type asked = lru.Cache[workflow.Key, time.Time]

func newAsked() *asked {
	asked, err := lru.New[workflow.Key, time.Time](maxAsked)
	if err != nil {
		panic(err) // maxAsked is not positive
	}
	return asked
}

// SeekVideo implements POST /videos/{id}/seek. The write before the answer is the
// outbox's, so what was asked for is sent even when this process dies.
func (s *Server) SeekVideo(c *gin.Context, id api.ID) {
	var body api.SeekRequest
	if err := s.readJSON(c, "SeekRequest", &body); err != nil {
		abort(c, err)
		return
	}
	ctx := c.Request.Context()
	view, err := s.videos.View(ctx, video.ID(id))
	if err == nil {
		err = access.MaySee(ctx, view.Video)
	}
	if err != nil {
		abort(c, err)
		return
	}
	found, err := place(view, body.At)
	if err != nil {
		abort(c, err)
		return
	}
	if (!found.Made || found.Preview) && view.Video.Playing() == view.Video.Generation {
		if wanted := s.notAskedYet(view.Wanted(body.At)); len(wanted) > 0 {
			if err := s.videos.Resend(ctx, view.Record, wanted); err != nil {
				abort(c, err)
				return
			}
			for _, i := range wanted {
				s.asked.Add(i.Key, time.Now())
			}
		}
	}
	c.Header("Cache-Control", "no-store")
	c.JSON(http.StatusOK, found)
}

// place tells which playlist shows a second of what plays: the whole one as far as it
// leads, else one that begins with the chunk of that second, or with a preview of it.
func place(view videostore.View, second float64) (api.Seek, error) {
	address := func(from int) string {
		return playbackPath(view.Video.ID, playlist.Address("master", from))
	}
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
		e := problem.New(http.StatusNotFound, problem.NotYet, "Nothing can be watched yet.")
		e.RetryAfter = 1
		return api.Seek{}, e
	}
	if chunk < len(p.Leading()) && p.Ready() {
		return api.Seek{Master: address(0), Made: true}, nil
	}
	p.From = chunk
	found := api.Seek{Master: address(chunk), From: p.Plan.Start(chunk), Made: p.Ready()}
	if !found.Made && p.Preview().Ready() {
		found.Master, found.Made, found.Preview = playbackPath(view.Video.ID, playlist.PreviewAddress("master", chunk)), true, true
	}
	return found, nil
}

func playbackPath(id video.ID, name string) string { return fmt.Sprintf("/v/%s/%s", id, name) }

// notAskedYet removes the intents that this web role has sent a moment ago.
func (s *Server) notAskedYet(intents []videostore.Intent) (left []videostore.Intent) {
	for _, i := range intents {
		if at, found := s.asked.Get(i.Key); found && time.Since(at) < askAgainAfter {
			continue
		}
		left = append(left, i)
	}
	return left
}
