// Package httpapi is the HTTP API of docs/openapi.yaml: it implements the
// generated interface, one file per group of operations. Every request is
// checked against the document before a handler runs, and every error is
// answered by package problem.
//
// Next: webrole/internal/upload, how bytes get in.
package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/gin-gonic/gin"
	"github.com/jellydator/ttlcache/v3"

	"github.com/cutroom/cutroom/shared/apikeys"
	"github.com/cutroom/cutroom/shared/audit"
	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqops"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/workers"
	"github.com/cutroom/cutroom/shared/price"
	"github.com/cutroom/cutroom/shared/registrations"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/views"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/board"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/recent"
	"github.com/cutroom/cutroom/webrole/internal/upload"
)

// Base is where the API is mounted.
const Base = "/api/v1"

// Parts is what the API works with. All of it is needed.
type Parts struct {
	Videos  *videostore.Store
	Blobs   *blobstore.Store
	Uploads *upload.Service
	Catalog *catalog.Catalog
	Search  *searchindex.Index
	Races   *registrations.Store
	Views   *views.Counter
	Workers *workers.Register
	Keys    *apikeys.Store
	Trail   *audit.Log
	Queues  *azq.Client
	Prices  price.Table
	Links   access.Links // tokens for private videos
	Board   *board.Board

	Unreadable *tablestore.UnreadableRows
}

// Server implements api.ServerInterface. It is safe for concurrent use and keeps nothing
// between requests but what can be read again: any web role answers any request (Q1).
type Server struct {
	Parts
	doc       *openapi3.T
	snapshots *recent.Cache[engine.ID, snapshot]
	asked     *ttlcache.Cache[engine.Key, bool] // parts that viewers went to
	operator  http.Handler                      // of queues and their poison
}

var _ api.ServerInterface = (*Server)(nil)

// New returns the API.
func New(p Parts) (*Server, error) {
	doc, err := api.GetSpec()
	if err != nil {
		return nil, fmt.Errorf("read the API's document: %w", err)
	}
	s := &Server{Parts: p, doc: doc, snapshots: newSnapshots(p.Videos), asked: recent.NewMemory[engine.Key, bool](maxSeekRequests, askAgainAfter)}
	s.operator = http.StripPrefix(Base+"/ops", azqops.Routes(p.Queues, problem.Write))
	return s, nil
}

func pathOf(id engine.ID) string { return Base + "/videos/" + string(id) }

// Register adds the routes of the document that which selects.
func (s *Server) Register(r gin.IRouter, included func(path string) bool) {
	all := gin.New()
	api.RegisterHandlersWithOptions(all, s, api.GinServerOptions{
		BaseURL: Base,
		ErrorHandler: func(c *gin.Context, err error, _ int) {
			if _, isEvent := errors.AsType[*registrations.Invalid](err); !isEvent {
				err = problem.New(problem.InvalidParameter, "A parameter cannot be read.").Because(err)
			}
			problem.Abort(c, err)
		},
	})
	for _, route := range all.Routes() {
		if included(route.Path) {
			r.Handle(route.Method, route.Path, noStore, s.checkParameters, route.HandlerFunc)
		}
	}
}

// noStore is what caches are told unless a handler tells them otherwise.
func noStore(c *gin.Context) { c.Header("Cache-Control", "no-store") }

// IsOps selects the operator's routes, which the public listener has only if WEBROLE_PUBLIC_OPS is on.
func IsOps(path string) bool { return strings.HasPrefix(path, Base+"/ops/") }

// NoRoute answers for addresses that no route has. A video address whose id has
// characters that split the path is a bad id, not a missing page.
func NoRoute(c *gin.Context) {
	path, isVideo := strings.CutPrefix(c.Request.URL.Path, Base+"/videos/")
	if id, _, _ := strings.Cut(path, "/"); isVideo && len(id) != 26 {
		problem.Abort(c, engine.ErrInvalidID)
		return
	}
	problem.Abort(c, problem.New(problem.NotFound, "There is nothing at this address."))
}

// NoMethod answers for addresses that do not know the method.
func NoMethod(c *gin.Context) {
	problem.Abort(c, problem.New(problem.MethodNotAllowed, "This address does not know that method."))
}

// handle answers with what do returns, or with the problem that its error stands for.
func handle[T any](c *gin.Context, status int, do func(context.Context) (T, error)) {
	body, err := do(c.Request.Context())
	reply(c, status, body, err)
}

// reply answers with a body as JSON, if there is one, or with the problem that err stands for.
func reply(c *gin.Context, status int, body any, err error) {
	if err != nil {
		problem.Abort(c, err)
		return
	}
	if body == nil {
		c.Status(status)
		c.Writer.WriteHeaderNow()
		return
	}
	c.JSON(status, body)
}

// list makes JSON's [] of a nil slice.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
