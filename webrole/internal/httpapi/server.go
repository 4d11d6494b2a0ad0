package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/apikeys"
	"github.com/cutroom/cutroom/shared/audit"
	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/price"
	"github.com/cutroom/cutroom/shared/registrations"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/views"
	"github.com/cutroom/cutroom/shared/workers"
	"github.com/cutroom/cutroom/shared/workqueue"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/board"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/recent"
	"github.com/cutroom/cutroom/webrole/internal/scaling"
	"github.com/cutroom/cutroom/webrole/internal/upload"
)

// Base is where the API is mounted.
const Base = "/api/v1"

// Server implements api.ServerInterface. It is safe for concurrent use and keeps
// nothing between requests but what may be read again: any web role answers any request (paper row Q1).
type Server struct {
	doc     *openapi3.T
	videos  *videostore.Store
	blobs   *blobstore.Store
	uploads *upload.Service
	catalog *catalog.Catalog
	search  *searchindex.Index
	queues  *workqueue.Queues
	workers *workers.Register
	keys    *apikeys.Store
	trail   *audit.Trail
	views   *views.Counter
	races   *registrations.Store
	prices  price.Table
	tokens  access.Links
	board   *board.Board
	scale   *scaling.Source
	glances *recent.Cache[video.ID, glance]
	asked   *asked

	unreadable *tablestore.UnreadableRows

	queueNames []string // every queue and its poison queue, in order
	byName     map[string]*workqueue.Queue
}

var _ api.ServerInterface = (*Server)(nil)

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
	Trail   *audit.Trail
	Queues  *workqueue.Queues
	Prices  price.Table
	Links   access.Links // tokens for private videos
	Board   *board.Board
	Scale   *scaling.Source

	Unreadable *tablestore.UnreadableRows

	// OpenQueue opens the poison queues, which only the operator's routes use.
	OpenQueue func(workqueue.Spec) *workqueue.Queue
}

// New returns the API.
func New(p Parts) (*Server, error) {
	doc, err := api.GetSpec()
	if err != nil {
		return nil, fmt.Errorf("read the API's document: %w", err)
	}
	s := &Server{
		doc: doc, videos: p.Videos, blobs: p.Blobs, uploads: p.Uploads, catalog: p.Catalog, search: p.Search,
		races: p.Races, views: p.Views, workers: p.Workers, keys: p.Keys, trail: p.Trail, queues: p.Queues, board: p.Board, scale: p.Scale,
		prices: p.Prices, tokens: p.Links, glances: newGlances(p.Videos), asked: newAsked(), unreadable: p.Unreadable,
	}
	s.openQueues(p.OpenQueue)
	return s, nil
}

// Register adds the routes of the document: all of them, those under /ops/ only,
// or all but those.
func (s *Server) Register(r gin.IRouter, which func(path string) bool) {
	group := r.Group("", checkParameters(s.doc))
	api.RegisterHandlersWithOptions(only{group, which}, s, api.GinServerOptions{
		BaseURL: Base,
		ErrorHandler: func(c *gin.Context, err error, _ int) {
			abort(c, problem.New(http.StatusBadRequest, problem.InvalidParameter, "A parameter cannot be read.").Because(err))
		},
	})
}

// IsOps selects the operator's routes, which the public listener has only if WEBROLE_PUBLIC_OPS is on.
func IsOps(path string) bool { return strings.HasPrefix(path, Base+"/ops/") }

// NoRoute answers for addresses that no route has. A video address whose id has
// characters that split the path is a bad id, not a missing page.
func NoRoute(c *gin.Context) {
	path, isVideo := strings.CutPrefix(c.Request.URL.Path, Base+"/videos/")
	if id, _, _ := strings.Cut(path, "/"); isVideo && len(id) != 26 {
		abort(c, problem.New(http.StatusBadRequest, problem.InvalidID, "A video's id is 26 characters of a-z and 2-7."))
		return
	}
	abort(c, problem.New(http.StatusNotFound, problem.NotFound, "There is nothing at this address."))
}

// NoMethod answers for addresses that do not know the method.
func NoMethod(c *gin.Context) {
	abort(c, problem.New(http.StatusMethodNotAllowed, problem.MethodNotAllowed, "This address does not know that method."))
}

// only registers the routes that keep accepts.
type only struct {
	gin.IRouter
	keep func(path string) bool
}

func (o only) GET(path string, h ...gin.HandlerFunc) gin.IRoutes {
	return o.add(o.IRouter.GET, path, h)
}
func (o only) POST(path string, h ...gin.HandlerFunc) gin.IRoutes {
	return o.add(o.IRouter.POST, path, h)
}
func (o only) PUT(path string, h ...gin.HandlerFunc) gin.IRoutes {
	return o.add(o.IRouter.PUT, path, h)
}
func (o only) PATCH(path string, h ...gin.HandlerFunc) gin.IRoutes {
	return o.add(o.IRouter.PATCH, path, h)
}
func (o only) DELETE(path string, h ...gin.HandlerFunc) gin.IRoutes {
	return o.add(o.IRouter.DELETE, path, h)
}

func (o only) add(register func(string, ...gin.HandlerFunc) gin.IRoutes, path string, h []gin.HandlerFunc) gin.IRoutes {
	if !o.keep(path) {
		return o.IRouter
	}
	return register(path, h...)
}

// links says where a video's things are. Playback addresses appear when they answer.
func (s *Server) links(v videostore.Record) api.Links {
	self := Base + "/videos/" + string(v.Video.ID)
	play := s.tokens.Base(v.Video)
	l := api.Links{Self: self, Steps: self + "/steps", Watch: "/watch/" + string(v.Video.ID)}
	if v.Video.State == "awaiting_upload" {
		l.Content, l.Upload = ptr(self+"/content"), ptr(self+"/upload")
	}
	if v.Video.Playable {
		l.Views = ptr(self + "/views")
		l.Master = ptr(play + "/master.m3u8")
	}
	if v.Video.Serving > 0 { // the chunk that makes the poster may be a late one
		l.Poster = ptr(play + "/poster.jpg")
		l.Storyboard, l.Download = ptr(play+"/storyboard.vtt"), ptr(play+"/download.mp4")
		l.Clips = ptr(self + "/clips")
	}
	l.Captions = ptr(self + "/captions")
	return l
}

func ptr[T any](v T) *T { return &v }

// Ready returns why the API cannot answer now, or nil: one point read of a row
// that does not exist says that storage answers.
func (s *Server) Ready(ctx context.Context) error {
	_, err := s.videos.Get(ctx, readyProbe)
	if errors.Is(err, videostore.ErrNotFound) {
		return nil
	}
	return err
}

// readyProbe is the id of no video: ids are random.
const readyProbe video.ID = "aaaaaaaaaaaaaaaaaaaaaaaaaa"
