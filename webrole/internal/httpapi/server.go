// Package httpapi is the part of the HTTP API that is no feature: videos and their way
// through the steps, uploads, and operations. It implements a generated interface, one file per
// group of operations, and gives features what is known of videos.
//
// Next: webrole/internal/upload, how bytes get in.
package httpapi

import (
	"context"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/workers"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/recent"
	"github.com/cutroom/cutroom/webrole/internal/upload"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

// Parts is what the API works with. All of it is needed.
type Parts struct {
	Videos  *videostore.Store
	Blobs   *blobstore.Store
	Uploads *upload.Service
	Catalog *catalog.Catalog
	Workers *workers.Register
	Queues  *azq.Client
	Links   access.Links // tokens for private videos

	Unreadable *tablestore.UnreadableRows
}

// Server is safe for concurrent use and keeps nothing between requests but what can be read
// again: any web role answers any request (Q1).
type Server struct {
	Parts
	Features  []web.Feature // what they say of videos; none is added once requests come
	snapshots *recent.Cache[engine.ID, snapshot]
}

// New returns the API.
func New(p Parts) *Server {
	return &Server{Parts: p, snapshots: recent.New(maxSnapshots, func(ctx context.Context, id engine.ID) (snapshot, error) {
		view, err := p.Videos.ReadSnapshot(ctx, id)
		if err != nil {
			return snapshot{}, err
		}
		return snapshot{etag: view.ETag, progress: videostore.ProgressOf(view), runs: stepRunsOf(view)}, nil
	})}
}

// Feature is the API's own part.
func (s *Server) Feature() web.Feature { return feature(s) }
