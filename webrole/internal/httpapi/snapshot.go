package httpapi

import (
	"context"
	"regexp"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/recent"
)

// snapshot is what the rows of a video say beyond META.
type snapshot struct {
	etag     string // of the META that was read with them
	progress videostore.Progress
	runs     []stepRun
}

const (
	maxSnapshots = 64
	// snapshotLife is how long a page may be shown the same progress. Whatever
	// changes META, such as the end of the last step, is seen at once.
	snapshotLife = time.Second
)

func newSnapshots(videos *videostore.Store) *recent.Cache[video.ID, snapshot] {
	return recent.New(maxSnapshots, func(ctx context.Context, id video.ID) (snapshot, error) {
		view, err := videos.ReadSnapshot(ctx, id)
		if err != nil {
			return snapshot{}, err
		}
		return snapshot{etag: view.ETag, progress: view.Progress(), runs: stepRunsOf(view)}, nil
	})
}

// snapshot reads all rows of a video, or shares what others have just read.
func (s *Server) snapshot(ctx context.Context, rec videostore.Record) (snapshot, error) {
	return s.snapshots.Get(ctx, rec.Video.ID, func(known snapshot, age time.Duration) bool {
		return known.etag == rec.ETag && age < snapshotLife
	})
}

// videoNow is the video of a route and its rows.
func (s *Server) videoNow(c *gin.Context) (video.Video, snapshot, error) {
	rec := access.Video(c)
	now, err := s.snapshot(c.Request.Context(), rec)
	return rec.Video, now, err
}

// disclosed is what a requester is shown of the work on a video: operators the whole of
// every error, others its code, because the rest names hosts and blobs; and those who may
// change the video which workers made it, because their names are those of hosts.
type disclosed struct{ errors, workers bool }

func disclosedTo(c *gin.Context, v video.Video) disclosed {
	who := access.IdentityOf(c.Request.Context())
	return disclosed{errors: access.May(who, access.Operate, video.Video{}), workers: access.May(who, access.Change, v)}
}

// retrying stands for an error that the requester is not shown.
const retrying = "retrying"

// failure is the text of a video.Failure, which is written for the uploader.
var failure = regexp.MustCompile(`^[a-z]+(_[a-z]+)+: `)

func (d disclosed) reason(text string) string {
	if d.errors || text == "" || failure.MatchString(text) {
		return text
	}
	return retrying
}

// worker is nil where there is none, or the requester is not shown it.
func (d disclosed) worker(name string) *string {
	if !d.workers {
		return nil
	}
	return api.Some(name)
}
