package access

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/engine"
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
func Identify(rules Rules, a Authenticator, links Links) gin.HandlerFunc {
	people, signsIn := a.(People)
	return func(c *gin.Context) {
		r := c.Request
		if rules.of(c) == Anyone {
			return
		}
		caller, byLink := links.identify(c)
		var err error
		if !byLink {
			caller, err = a.Authenticate(r)
		}
		_, shows := tokenOf(r)
		switch {
		case errors.Is(err, ErrUnknown) && shows:
			err = engine.ErrNotFound // spoilt, over, or of another video: as if there were none
		case errors.Is(err, ErrUnknown) && signsIn && r.Method == http.MethodGet &&
			r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") != "iframe":
			c.Redirect(http.StatusFound, people.SignInPath()+"?next="+url.QueryEscape(r.URL.RequestURI()))
			c.Abort()
			return
		case errors.Is(err, ErrUnknown):
			err = unauthorized(c, signsIn).Because(err)
		}
		if err != nil {
			problem.Abort(c, err)
			return
		}
		caller.SignsIn = signsIn
		c.Request = r.WithContext(context.WithValue(r.Context(), identityKey{}, caller))
	}
}

func unauthorized(c *gin.Context, people bool) *problem.Error {
	// Browsers ask for a password then, which may be a token or a key. Where people
	// sign in they must not.
	challenge := `Basic realm="cutroom", charset="UTF-8"`
	if people {
		challenge = `Bearer realm="cutroom"`
	}
	c.Header("WWW-Authenticate", challenge)
	return problem.New(problem.Unauthorized, "This needs an access token or an API key.")
}

// Recorder has a request handled that changes something, and writes it down. With an error it
// was not handled.
type Recorder func(*gin.Context) error

// Enforce stands before every handler of a router and lets through what the rule of
// the route allows. record, if there is one, writes down changes.
func Enforce(rules Rules, videos *videostore.Store, record Recorder) gin.HandlerFunc {
	return func(c *gin.Context) {
		if c.FullPath() == "" {
			return // no route: NoRoute and NoMethod answer
		}
		do := rules.of(c)
		err := check(c, videos, do)
		if err == nil && record != nil && changes(c, do) {
			err = record(c)
		}
		if err != nil {
			if c.Request.ContentLength != 0 {
				c.Header("Connection", "close") // the rest of the body is not read
			}
			problem.Abort(c, err)
		}
	}
}

const videoKey = "cutroom.video"

// Video is the video of a route, which the requester may see: its META was read to decide that.
func Video(c *gin.Context) videostore.Record {
	rec, _ := c.Value(videoKey).(videostore.Record)
	return rec
}

func check(c *gin.Context, videos *videostore.Store, do Action) error {
	ctx := c.Request.Context()
	caller := IdentityOf(ctx)
	var rec videostore.Record
	if do == See || do == Make || do == Change || do == Remove && !caller.is(Operator) {
		id, err := engine.ParseID(c.Param("id"))
		if err == nil {
			rec, err = videos.Get(ctx, id)
		}
		if err == nil {
			err = MaySee(ctx, rec.Subject)
		}
		if err != nil {
			return err
		}
		c.Set(videoKey, rec)
	}
	if !May(caller, do, rec.Subject) {
		return Refused(c)
	}
	return nil
}

// MaySee returns engine.ErrNotFound when the requester may not see v: strangers cannot
// tell a private video from none, and a video that is being deleted is not there for anyone.
func MaySee(ctx context.Context, v video.Video) error {
	if !May(IdentityOf(ctx), See, v) {
		return engine.ErrNotFound
	}
	return nil
}

// Refused is the answer to a requester without the right: 401 without credentials, because
// signing in may help, else 403.
func Refused(c *gin.Context) error {
	if caller := IdentityOf(c.Request.Context()); caller.Owner == "" && caller.Key == "" {
		return unauthorized(c, caller.SignsIn)
	}
	return problem.New(problem.Forbidden, "You may not do this.")
}

// changes reports whether a request is one to write down: it changes something other than
// what any viewer may change, such as views and what is made first. The lab, which is there on
// loopback only, breaks the storage that the trail is in, and must be able to mend it.
func changes(c *gin.Context, do Action) bool {
	read := c.Request.Method == http.MethodGet || c.Request.Method == http.MethodHead
	return !read && !slices.Contains([]Action{See, Look, Anyone}, do) && c.FullPath() != "/api/v1/lab/:fault"
}
