package access

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/audit"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// ErrUnknown says that a request shows no credentials that count.
var ErrUnknown = errors.New("credentials are missing or unknown")

// Identify asks an Authenticator for the sender of each request, for all handlers behind
// it. A valid link token overrides other credentials. An unknown sender gets 401, but
// for health and the sign-in, or 404 for a token; a browser that asks for a page is sent
// to the sign-in, if there is one, but not in a frame, where issuers show nothing.
func Identify(a Authenticator, links Links) func(http.Handler) http.Handler {
	_, people := a.(*SignIn)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if free[r.Method+" "+r.URL.Path] {
				next.ServeHTTP(w, r)
				return
			}
			who, byLink := links.identify(r)
			var err error
			if !byLink {
				who, err = a.Authenticate(r)
			}
			if _, token := tokenOf(r); token && errors.Is(err, ErrUnknown) {
				err = videostore.ErrNotFound // spoilt, over, or of another video: as if there were none
			}
			if errors.Is(err, ErrUnknown) {
				if people && r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") != "iframe" {
					http.Redirect(w, r, SignInPath+"?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusFound)
					return
				}
				err = unauthorized(w, people).Because(err)
			}
			if err != nil {
				problem.Write(w, r, err)
				return
			}
			next.ServeHTTP(w, r.WithContext(withCaller(r.Context(), caller{who, people})))
		})
	}
}

func unauthorized(w http.ResponseWriter, people bool) *problem.Error {
	// Browsers ask for a password then, which may be a token or a key. Where people
	// sign in they must not.
	challenge := `Basic realm="cutroom", charset="UTF-8"`
	if people {
		challenge = `Bearer realm="cutroom"`
	}
	w.Header().Set("WWW-Authenticate", challenge)
	return problem.New(problem.Unauthorized, "This needs an access token or an API key.")
}

// Videos reads a video. videostore.Store implements it.
type Videos interface {
	Get(ctx context.Context, id video.ID) (videostore.Record, error)
}

// Enforce stands before every handler of a router and lets through what the rule of
// the route allows. A change is written down before it is made, and its answer after it.
func Enforce(videos Videos, trail Auditor) gin.HandlerFunc {
	return func(c *gin.Context) {
		route := c.Request.Method + " " + c.FullPath()
		if c.FullPath() == "" || free[route] {
			return // no route: NoRoute and NoMethod answer
		}
		err := check(c, videos, rules[route])
		var entry audit.Entry
		noted := err == nil && trail.Entries != nil && notes(route, c.Request.Method, rules[route])
		if noted {
			entry, err = trail.begin(c)
		}
		if err != nil {
			c.Abort()
			if c.Request.ContentLength != 0 {
				c.Header("Connection", "close") // the rest of the body is not read
			}
			problem.Write(c.Writer, c.Request, err)
			return
		}
		if noted {
			c.Next()
			trail.end(c, entry)
		}
	}
}

// recordKey is where check leaves the video that it has read.
const recordKey = "cutroom.record"

// Record is the video of the route, if Enforce has read it and the requester may see it.
func Record(c *gin.Context) (rec videostore.Record, read bool) {
	rec, read = c.Value(recordKey).(videostore.Record)
	return rec, read
}

// check reads the video of a route to see whose it is, except for operators, who may do
// everything, and for playback, which reads the video itself and asks MaySee.
func check(c *gin.Context, videos Videos, do Action) error {
	ctx := c.Request.Context()
	who := IdentityOf(ctx)
	var v video.Video
	switch {
	case do == Play && who.is(Viewer):
		return nil
	case do == See, do == Clip, do == Change:
		if who.is(Operator) {
			return nil
		}
		id, err := video.ParseID(c.Param("id"))
		if err != nil {
			return err
		}
		rec, err := videos.Get(ctx, id)
		if err != nil {
			return err
		}
		v = rec.Video
		if err := MaySee(ctx, v); err != nil {
			return err
		}
		c.Set(recordKey, rec)
	}
	if !May(who, do, v) {
		return Refused(c.Writer, ctx)
	}
	return nil
}

// MaySee returns videostore.ErrNotFound when the requester may not see v: strangers cannot
// tell a private video from none, and a video that is being deleted is not there for anyone.
func MaySee(ctx context.Context, v video.Video) error {
	if !May(IdentityOf(ctx), See, v) {
		return videostore.ErrNotFound
	}
	return nil
}

// Refused is the answer to a requester without the right: 401 without credentials, because
// signing in may help, else 403.
func Refused(w http.ResponseWriter, ctx context.Context) error {
	if who := IdentityOf(ctx); who.Owner == "" && who.Key == "" {
		return unauthorized(w, callerOf(ctx).signsIn)
	}
	return problem.New(problem.Forbidden, "You may not do this.")
}
