package access

import "github.com/gin-gonic/gin"

// ruleOf is what a route is about. One that is not in the table is for operators alone: all of
// ops and lab, the board, metrics and profiles.
func ruleOf(c *gin.Context) Action {
	if do, listed := rules[c.Request.Method+" "+c.FullPath()]; listed {
		return do
	}
	return Operate
}

// rules has the other routes, by method and path as the router knows them.
var rules = map[string]Action{
	"GET /livez":          Anyone,
	"GET /readyz":         Anyone,
	"GET " + SignInPath:   Anyone,
	"GET " + callbackPath: Anyone,
	"POST " + signOutPath: Anyone,

	"GET /":                  Look,
	"GET /mine":              Look, // whose they are the list of the API knows
	"GET /upload":            Look,
	"GET /race":              Look,
	"GET /learn":             Look,
	"GET /patterns/:page":    Look,
	"GET /learn/:scene":      Look,
	"GET /learn/calculators": Look,
	"GET /learn/path/:stop":  Look,
	"POST /learn/path/:stop": Look, // changes a cookie of the sender
	"GET /watch/:id":         Look, // a page without data; what it shows it asks the API for
	"GET /embed/:id":         Look,
	"GET /static/*file":      Look,
	"HEAD /static/*file":     Look,

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
}
