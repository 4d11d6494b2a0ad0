package access

import (
	"errors"
	"fmt"

	"github.com/gin-gonic/gin"
)

// rules has what each route is about, by method and path as the router knows them.
// With a route that is missing here the role does not start.
var rules = map[string]Action{
	"GET /":               Look,
	"GET /mine":           Look, // whose they are the list of the API knows
	"GET /upload":         Look,
	"GET /race":           Look,
	"GET /learn":          Look,
	"GET /patterns/:page": Look,
	"GET /learn/:scene":   Look,
	"GET /watch/:id":      Look, // a page without data; what it shows it asks the API for
	"GET /embed/:id":      Look,
	"GET /static/*file":   Look,
	"HEAD /static/*file":  Look,
	"GET /board":          Operate,
	"GET /board/tables":   Operate,

	"GET /v/:id/*path":  See,
	"HEAD /v/:id/*path": See,

	"GET /api/v1/search":  Look,
	"GET /api/v1/videos":  Look,
	"POST /api/v1/videos": Create,

	"GET /api/v1/videos/:id":                              See,
	"PATCH /api/v1/videos/:id":                            Change,
	"DELETE /api/v1/videos/:id":                           Remove,
	"PUT /api/v1/videos/:id/content":                      Change,
	"GET /api/v1/videos/:id/upload":                       Change,
	"POST /api/v1/videos/:id/upload":                      Change,
	"POST /api/v1/videos/:id/upload/complete":             Change,
	"POST /api/v1/videos/:id/retry":                       Change,
	"POST /api/v1/videos/:id/cancel":                      Change,
	"POST /api/v1/videos/:id/reprocess":                   Change,
	"GET /api/v1/videos/:id/steps":                        See,
	"GET /api/v1/videos/:id/journey":                      See,
	"GET /api/v1/videos/:id/cost":                         Change,
	"GET /api/v1/videos/:id/views":                        See,
	"POST /api/v1/videos/:id/views":                       See,
	"POST /api/v1/videos/:id/seek":                        See, // what a viewer watches is made first
	"GET /api/v1/videos/:id/clips":                        See,
	"POST /api/v1/videos/:id/clips":                       Clip,
	"GET /api/v1/videos/:id/clips/:clip":                  See,
	"GET /api/v1/videos/:id/captions":                     See,
	"GET /api/v1/videos/:id/captions/:language":           See,
	"POST /api/v1/videos/:id/captions/:language":          Change,
	"DELETE /api/v1/videos/:id/captions/:language":        Change,
	"GET /api/v1/events":                                  Look,
	"GET /api/v1/events/:event/registrations":             Look,
	"POST /api/v1/events/:event/registrations":            Races,
	"GET /api/v1/events/:event/registrations/:bib":        Look,
	"PATCH /api/v1/events/:event/registrations/:bib":      Races,
	"DELETE /api/v1/events/:event/registrations/:bib":     Races,
	"POST /api/v1/events/:event/registrations/:bib/clips": Create, // of videos that are public

	"GET /api/v1/ops/queues":                    Operate,
	"GET /api/v1/ops/queues/:queue/messages":    Operate,
	"POST /api/v1/ops/queues/:queue/clear":      Operate,
	"POST /api/v1/ops/queues/:queue/pause":      Operate,
	"POST /api/v1/ops/queues/:queue/resume":     Operate,
	"GET /api/v1/ops/poison":                    Operate,
	"POST /api/v1/ops/poison/:poisonId/redrive": Operate,
	"GET /api/v1/ops/unreadable":                Operate,
	"DELETE /api/v1/ops/unreadable/:rowId":      Operate,
	"GET /api/v1/ops/workers":                   Operate,
	"GET /api/v1/ops/events":                    Operate,
	"GET /api/v1/ops/scale":                     Operate,
	"GET /api/v1/ops/audit":                     Operate,
	"GET /api/v1/ops/keys":                      Operate,
	"POST /api/v1/ops/keys":                     Operate,
	"DELETE /api/v1/ops/keys/:keyId":            Operate,

	"GET /api/v1/lab":                 Operate,
	"POST /api/v1/lab/:fault":         Operate,
	"GET /api/v1/lab/scenes":          Operate,
	"POST /api/v1/lab/scenes/:scene":  Operate,
	"GET /api/v1/lab/scene-runs/:run": Operate,
	"GET /metrics":                    Operate,
	"GET /debug/pprof/*name":          Operate,
}

// Check returns an error that names the routes of a router that have no rule.
func Check(routes gin.RoutesInfo) error {
	var missing []error
	for _, r := range routes {
		if route := r.Method + " " + r.Path; rules[route] == 0 && !free[route] {
			missing = append(missing, fmt.Errorf("no rule says who is allowed to %s: add one to webrole/internal/access/rules.go and webrole/access_test.go", route))
		}
	}
	return errors.Join(missing...)
}

// free are the routes that answer everyone, also without an identity.
var free = map[string]bool{
	"GET /livez": true, "GET /readyz": true,
	"GET " + SignInPath: true, "GET " + callbackPath: true, "POST " + signOutPath: true,
}
