package access

import "github.com/gin-gonic/gin"

// Rules say what routes are about, by method and path as the router knows them. A route that
// is not in the table is for operators alone: all of ops and lab, the board, metrics and profiles.
type Rules map[string]Action

func (rules Rules) of(c *gin.Context) Action {
	if do, listed := rules[c.Request.Method+" "+c.FullPath()]; listed {
		return do
	}
	return Operate
}

// Core is the rules of the routes that are not generated; for those openapi.yaml has x-access.
var Core = Rules{
	"GET /livez":  Anyone,
	"GET /readyz": Anyone,

	"GET /":              Look,
	"GET /upload":        Look,
	"GET /race":          Look,
	"GET /watch/:id":     Look, // a page without data; what it shows it asks the API for
	"GET /embed/:id":     Look,
	"GET /static/*file":  Look,
	"HEAD /static/*file": Look,

	"GET /v/:id/*path":  See,
	"HEAD /v/:id/*path": See,
}
