// Package playback serves what a player reads under /v/{id}/. Playlists are drawn
// from the committed step rows, so a video can be watched before it is ready. A
// segment is a range of one immutable blob, proxied with ranges and a strong
// ETag, and cached for ever: its address carries the generation.
//
//	master.m3u8  {rendition}.m3u8  audio.m3u8
//	{rendition|audio}/init.mp4  {rendition|audio}/{number}.m4s
//	poster.jpg  storyboard.vtt  storyboard.jpg  download.mp4
//
// Every request looks at META first, a point read, so that a deleted video
// answers 404 from its tombstone on.
package playback

import (
	"cmp"
	"context"
	"fmt"
	"mime"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/recent"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

// Cache-Control values. Playlists grow; what a generation names never changes;
// the rest is asked for again with its ETag.
const (
	neverStore   = "no-store"
	immutableFor = "max-age=31536000, immutable"
	askAgain     = "no-cache"
	typeVideo    = "video/mp4"
	typeAudio    = "audio/mp4"
	typePicture  = "image/jpeg"
	typeCaption  = "text/vtt; charset=utf-8"
)

// Service is safe for concurrent use.
type Service struct {
	blobs    *blobstore.Store
	views    *recent.Cache[viewKey, committed] // of the generations that are being played
	features []web.Feature
}

// New returns the playback of an account's videos, with what features have beside them.
func New(videos *videostore.Store, blobs *blobstore.Store, features []web.Feature) *Service {
	views := recent.New(maxViews, func(ctx context.Context, key viewKey) (c committed, _ error) {
		view, err := videos.View(ctx, key.id)
		if err != nil {
			return c, err
		}
		if c.Presentation, err = videostore.Presentation(view, key.generation); err != nil {
			return c, fmt.Errorf("collect %s: %w", key.id, err)
		}
		if c.preview, _, err = videos.Preview(view, c.Presentation); err != nil {
			return c, fmt.Errorf("collect previews of %s: %w", key.id, err)
		}
		c.finish, err = videostore.Whole(view, key.generation)
		return c, err
	})
	return &Service{blobs: blobs, views: views, features: features}
}

// Register adds the routes under /v/.
func (s *Service) Register(r gin.IRoutes) {
	r.GET("/v/:id/*path", s.handle)
	r.HEAD("/v/:id/*path", s.handle)
}

func (s *Service) handle(c *gin.Context) {
	q, err := newRequest(c)
	var res resource
	if err == nil {
		res, err = s.find(c.Request.Context(), q, strings.TrimPrefix(c.Param("path"), "/"))
	}
	if err == nil {
		err = s.send(c, res)
	}
	if err != nil {
		problem.Abort(c, err)
	}
}

type request struct {
	video      video.Video
	generation int  // which generation to show
	pinned     bool // the address names it, so the answer may be kept for ever
	from       int  // the chunk that a playlist begins with
	preview    bool // show what is not committed yet

	until int64 // when the token in the address ends, in Unix time; zero: there is none
}

func newRequest(c *gin.Context) (q request, err error) {
	q.video = access.Video(c).Subject
	q.generation = q.video.Playing()
	q.until = access.IdentityOf(c.Request.Context()).Until
	if g := c.Query("g"); g != "" {
		q.pinned = true
		if q.generation, err = strconv.Atoi(g); err != nil || q.generation < 1 {
			return q, problem.New(problem.InvalidParameter, "g is not the number of a generation.")
		}
	}
	if q.from, err = strconv.Atoi(cmp.Or(c.Query(playlist.FromParameter), "0")); err != nil || q.from < 0 {
		return q, problem.New(problem.InvalidParameter, "from is not the number of a chunk.")
	}
	_, q.preview = c.GetQuery(playlist.PreviewParameter)
	return q, nil
}

func (q request) cache() string {
	if q.preview {
		return neverStore // another attempt, or the commit, may replace it
	}
	if !q.pinned {
		return askAgain
	}
	if q.until > 0 { // the address is the permission, and caches end with it
		return fmt.Sprintf("public, max-age=%d, immutable", max(0, q.until-time.Now().Unix()))
	}
	if !q.video.Visibility.Linked() {
		return "private, " + immutableFor
	}
	return "public, " + immutableFor
}

func (s *Service) find(ctx context.Context, q request, path string) (resource, error) {
	dir, file, nested := strings.Cut(path, "/")
	name, isPlaylist := strings.CutSuffix(path, ".m3u8")
	switch {
	case isPlaylist && !nested:
		return s.playlist(ctx, q, name)
	case dir == "files":
		return s.file(q, file)
	}
	for _, f := range s.features {
		if files := f.Plays[dir]; files != nil {
			return s.beside(ctx, q, files, file)
		}
	}
	if nested {
		return s.media(ctx, q, dir, file)
	}
	return s.extra(ctx, q, path)
}

// presented is what is committed, as a request wants to see it: all of a finished video.
func (q request) presented(c committed) committed {
	if c.finish != nil {
		return c
	}
	if q.preview {
		c.Presentation = c.preview
	}
	c.From = q.from // of this copy
	return c
}

func (s *Service) playlist(ctx context.Context, q request, name string) (resource, error) {
	c, err := s.view(ctx, q, func(committed) bool { return false })
	if err != nil {
		return resource{}, err
	}
	text, err := playlistText(q, q.presented(c), name)
	for _, f := range s.features {
		if err == nil && name == "master" && f.Extend != nil {
			text, err = f.Extend(ctx, q.video.ID, text)
		}
	}
	return resource{File: web.File{Text: text, ContentType: playlist.ContentType}, cache: neverStore}, err
}

// playlistText is a projection of what is committed.
func playlistText(q request, c committed, name string) (string, error) {
	if !c.Ready() && (q.video.State.Active() || q.video.State == engine.AwaitingUpload) {
		return "", problem.New(problem.NotYet, "Nothing can be watched yet.").After(1)
	}
	if c.Ready() && name == "master" {
		return playlist.Master(c.Presentation), nil
	}
	text, found := playlist.Media(c.Presentation, name)
	if !c.Ready() || !found {
		return "", web.NoFile()
	}
	return text, nil
}

func (s *Service) media(ctx context.Context, q request, dir, file string) (resource, error) {
	number := -1 // the init segment
	if file != "init.mp4" {
		digits, ok := strings.CutSuffix(file, ".m4s")
		n, err := strconv.Atoi(digits)
		if !ok || err != nil || n < 0 {
			return resource{}, web.NoFile()
		}
		number = n
	}
	c, err := s.view(ctx, q, func(c committed) bool {
		_, found := locate(q.presented(c), dir, number)
		return found
	})
	res, found := locate(q.presented(c), dir, number)
	if err == nil && !found {
		err = web.NoFile()
	}
	res.cache = q.cache()
	return res, err
}

// locate finds a segment, or the init segment with number -1, among what is
// committed.
func locate(c committed, dir string, number int) (resource, bool) {
	if dir == playlist.AudioName {
		return locateAudio(c, number)
	}
	index, n, planned := c.Plan.ChunkOfSegment(number)
	if !planned || index >= len(c.Chunks) || c.Chunks[index] == nil {
		return resource{}, false
	}
	for _, out := range c.Chunks[index].Renditions {
		if out.Name != dir || n >= len(out.Segments) {
			continue
		}
		at := out.Init
		if number >= 0 {
			at = out.Segments[n].Range
		}
		return resource{File: web.File{Blob: out.Blob, Bytes: at.Length, ContentType: typeVideo}, offset: at.Offset}, true
	}
	return resource{}, false
}

func locateAudio(c committed, number int) (resource, bool) {
	for _, part := range c.Parts {
		if number < 0 && part.First == 0 { // the others have none
			return resource{File: web.File{Blob: part.Blob, Bytes: part.Init.Length, ContentType: typeAudio}, offset: part.Init.Offset}, true
		}
		if n := number - part.First; n >= 0 && n < len(part.Segments) {
			at := part.Segments[n].Range
			return resource{File: web.File{Blob: part.Blob, Bytes: at.Length, ContentType: typeAudio}, offset: at.Offset}, true
		}
	}
	return resource{}, false
}

// extras are the files beside the stream. All but the poster come with the finish step.
var extras = map[string]string{
	"poster.jpg": typePicture, "storyboard.vtt": typeCaption, "storyboard.jpg": typePicture, "download.mp4": typeVideo,
}

func (s *Service) extra(ctx context.Context, q request, name string) (resource, error) {
	res := resource{File: web.File{ContentType: extras[name]}, cache: q.cache()}
	if res.ContentType == "" {
		return res, web.NoFile()
	}
	c, err := s.view(ctx, q, func(c committed) bool { return name == "poster.jpg" && poster(c) != "" })
	if err != nil {
		return res, err
	}
	finish := cmp.Or(c.finish, &video.FinishOutput{})
	res.Blob = map[string]string{
		"poster.jpg": poster(c), "storyboard.vtt": finish.Storyboard, "storyboard.jpg": finish.Sprite, "download.mp4": finish.Download,
	}[name]
	if res.Blob == "" {
		return res, web.NoFile()
	}
	info, err := s.blobs.Head(ctx, engine.MediaContainer, res.Blob)
	if err != nil {
		return res, fmt.Errorf("look at %s: %w", res.Blob, err)
	}
	res.Bytes = info.Size
	if name == "download.mp4" { // browsers save it, without what their file system or RFC 6266 forbids in a name
		res.filename = mime.FormatMediaType("attachment", map[string]string{"filename": q.video.Title + ".mp4"})
	}
	return res, nil
}

// file is one that a step left with the video: META names it, so it costs no further read.
func (s *Service) file(q request, path string) (resource, error) {
	step, name, _ := strings.Cut(path, "/")
	made, _ := q.video.MadeBy(step, q.generation)
	for _, f := range made.Files {
		if f.Name == name {
			return resource{File: web.File{Blob: f.Blob, Bytes: f.Bytes, ContentType: f.ContentType}, cache: q.cache()}, nil
		}
	}
	return resource{}, web.NoFile()
}

// beside is a file of a feature.
func (s *Service) beside(ctx context.Context, q request, files web.Files, name string) (resource, error) {
	found, err := files(ctx, q.video, name)
	res := resource{File: found, cache: askAgain}
	if found.Blob == "" {
		res.cache = neverStore
	}
	if found.Fixed {
		q.pinned = true
		res.cache = q.cache()
	}
	return res, err
}

// poster is that of the chunk that made it.
func poster(c committed) string {
	for _, chunk := range c.Chunks {
		if chunk != nil && chunk.Poster != "" {
			return chunk.Poster
		}
	}
	return ""
}

// maxViews is how many generations are remembered. Committed rows never
// change and no id is used twice, so a remembered view is never wrong; it can
// only be incomplete, and then it is read again.
const maxViews = 64

type viewKey struct {
	id         engine.ID
	generation int
}

// committed is what is committed of one generation, as of one reading.
type committed struct {
	playlist.Presentation
	preview playlist.Presentation // with what is not committed
	finish  *video.FinishOutput   // nil until the finish step is done
}

// view returns what is committed of the generation that q asks for: a remembered
// view if it is complete (it has a finish) or has what is wanted, else one that is read now.
func (s *Service) view(ctx context.Context, q request, has func(committed) bool) (committed, error) {
	if q.generation > q.video.Generation { // META knows: nothing is read, and no view makes room for it
		return committed{}, web.NoFile()
	}
	return s.views.Get(ctx, viewKey{q.video.ID, q.generation}, func(c committed, _ time.Duration) bool {
		return c.finish != nil || has(c)
	})
}
