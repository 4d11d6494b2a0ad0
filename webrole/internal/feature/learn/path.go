package learn

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/webrole/internal/handbook"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// ticksCookie has the stops whose question was answered, such as "1-3", for a year. It is no
// secret and names no person, so it is also sent without TLS.
const ticksCookie = "path"

type pathPage struct {
	*handbook.Handbook
	Ticks map[string]bool // by the number of the stop
	Stop  *handbook.Stop  // of this page; at /learn the first without a tick, nil after the last
	Given string          // the answer to its question, as in the form
}

// readPath reads the path for /learn, or for the stop that an address names.
func (l *learn) readPath(c *gin.Context) (d pathPage, err error) {
	if d.Handbook, err = l.handbook(); err != nil {
		return d, err
	}
	cookie, _ := c.Cookie(ticksCookie) // none: nothing was answered
	kept, asked := strings.Split(cookie, "-"), c.Param("stop")
	d.Ticks, d.Given = map[string]bool{}, c.Query("answer")
	for i, stop := range d.Path {
		if slices.Contains(kept, stop.Number) {
			d.Ticks[stop.Number] = true
		}
		if stop.Number == asked || asked == "" && d.Stop == nil && !d.Ticks[stop.Number] {
			d.Stop = &d.Path[i]
		}
	}
	if asked != "" && d.Stop == nil {
		return d, problem.New(problem.NotFound, "There is no stop of this number.")
	}
	return d, nil
}

// answer ticks a stop off if the answer is right, and leads back to its page, which says why it
// is or is not. Safe to repeat.
func (l *learn) answer(c *gin.Context) {
	d, err := l.readPath(c)
	if err != nil {
		problem.Abort(c, err)
		return
	}
	given := c.PostForm("answer")
	if given == strconv.Itoa(d.Stop.Right) {
		d.Ticks[d.Stop.Number] = true
		c.SetCookieData(&http.Cookie{
			Name: ticksCookie, Value: strings.Join(slices.Sorted(maps.Keys(d.Ticks)), "-"), Path: "/learn",
			MaxAge: 365 * 24 * 3600, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		})
	}
	c.Redirect(http.StatusSeeOther, "/learn/path/"+d.Stop.Number+"?answer="+url.QueryEscape(given)+"#answer")
}
