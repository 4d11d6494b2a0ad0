package playback

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/recent"
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
	videos *videostore.Store
	blobs  *blobstore.Store
	views  *recent.Cache[viewKey, committed]
	tracks *recent.Cache[video.ID, []playlist.CaptionsTrack]
	absent *recent.Memory[seekView, bool]
}

// New returns the playback of an account's videos.
func New(videos *videostore.Store, blobs *blobstore.Store) *Service {
	return &Service{
		videos: videos, blobs: blobs, views: newViews(videos), tracks: newTracks(videos),
		absent: recent.NewMemory[seekView, bool](maxMissing, missingFor),
	}
}

// Register adds the routes under /v/.
func (s *Service) Register(r gin.IRoutes) {
	handle := func(c *gin.Context) {
		s.handle(c.Writer, c.Request, c.Param("id"), strings.TrimPrefix(c.Param("path"), "/"))
	}
	r.GET("/v/:id/*path", handle)
	r.HEAD("/v/:id/*path", handle)
}

// request is one request, with the video it is for.
type request struct {
	video      video.Video
	generation int  // which generation to show
	pinned     bool // the address names it, so the answer may be kept for ever
	from       int  // the chunk that a playlist begins with
	preview    bool // show what is not committed yet

	until time.Time // when the token in the address ends; zero: there is none
}

func (q request) cache() string {
	if q.preview {
		return neverStore // another attempt, or the commit, may replace it
	}
	if !q.pinned {
		return askAgain
	}
	if !q.until.IsZero() { // the address is the permission, and caches end with it
		return fmt.Sprintf("public, max-age=%d, immutable", max(0, int(time.Until(q.until)/time.Second)))
	}
	if !q.video.Visibility.Linked() {
		return "private, " + immutableFor
	}
	return "public, " + immutableFor
}

func (s *Service) handle(w http.ResponseWriter, r *http.Request, rawID, path string) {
	q, err := s.request(r, rawID)
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	dir, file, nested := strings.Cut(path, "/")
	name, isPlaylist := strings.CutSuffix(path, ".m3u8")
	switch {
	case isPlaylist && !nested:
		err = s.playlist(w, r, q, name)
	case dir == "clips":
		err = s.clip(w, r, q, file)
	case dir == "captions":
		err = s.captions(w, r, q, file)
	case dir == "files":
		err = s.file(w, r, q, file)
	case nested:
		err = s.media(w, r, q, dir, file)
	default:
		err = s.extra(w, r, q, path)
	}
	if err != nil {
		problem.Write(w, r, err)
	}
}

// request finds the video and the generation that is asked for.
func (s *Service) request(r *http.Request, rawID string) (request, error) {
	id, err := video.ParseID(rawID)
	if err != nil {
		return request{}, err
	}
	who := access.IdentityOf(r.Context())
	if absent, _ := s.absent.Get(seekView{who, id}); absent {
		return request{}, videostore.ErrNotFound
	}
	rec, err := s.videos.Get(r.Context(), id)
	if err == nil {
		err = access.MaySee(r.Context(), rec.Video)
	}
	if errors.Is(err, videostore.ErrNotFound) {
		s.absent.Add(seekView{who, id}, true, time.Now())
	}
	if err != nil {
		return request{}, err
	}
	q := request{video: rec.Video, generation: rec.Video.Playing()}
	if who.Until > 0 {
		q.until = time.Unix(who.Until, 0)
	}
	if g := r.URL.Query().Get("g"); g != "" {
		n, err := strconv.Atoi(g)
		if err != nil || n < 1 {
			return request{}, problem.New(problem.InvalidParameter, "g is not the number of a generation.")
		}
		q.generation, q.pinned = n, true
	}
	if from := r.URL.Query().Get(playlist.FromParameter); from != "" {
		if q.from, err = strconv.Atoi(from); err != nil || q.from < 0 {
			return request{}, problem.New(problem.InvalidParameter, "from is not the number of a chunk.")
		}
	}
	q.preview = r.URL.Query().Has(playlist.PreviewParameter)
	return q, nil
}

// presented is what is committed, as a request wants to see it.
func (q request) presented(c committed) committed {
	c.From = q.from // of this copy
	if q.preview && c.finish == nil {
		c.Presentation = c.Preview()
	}
	return c
}

func (s *Service) playlist(w http.ResponseWriter, r *http.Request, q request, name string) error {
	c, err := s.view(r.Context(), q, committed.complete)
	if err != nil {
		return err
	}
	text, err := s.playlistText(r.Context(), q, q.presented(c), name)
	if err != nil {
		return err
	}
	if name == "master" {
		if text, err = s.withCaptions(r.Context(), q.video.ID, text); err != nil {
			return err
		}
	}
	writePlaylist(w, r, text)
	return nil
}

func writePlaylist(w http.ResponseWriter, r *http.Request, text string) {
	h := w.Header()
	h.Set("Content-Type", playlist.ContentType)
	h.Set("Cache-Control", neverStore)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, text) // the client is gone; nothing to do
	}
}

// playlistText is the finish step's file, or a projection of what is committed.
func (s *Service) playlistText(ctx context.Context, q request, c committed, name string) (string, error) {
	if c.finish != nil {
		blob := c.finish.Playlists[name]
		if name == "master" {
			blob = c.finish.Master
		}
		if blob == "" {
			return "", missing()
		}
		text, err := s.blobs.Get(ctx, video.MediaContainer, blob)
		if err != nil {
			return "", fmt.Errorf("read playlist of %s: %w", q.video.ID, err)
		}
		return string(text), nil
	}
	if !c.Ready() && !q.video.State.Active() && q.video.State != video.AwaitingUpload {
		return "", missing()
	}
	if !c.Ready() {
		e := problem.New(problem.NotYet, "Nothing can be watched yet.")
		e.RetryAfter = 1
		return "", e
	}
	text, found := "", true
	switch name {
	case "master":
		text = playlist.Master(c.Presentation)
	case playlist.AudioName:
		text, found = playlist.Audio(c.Presentation)
	default:
		text, found = playlist.Video(c.Presentation, name)
	}
	if !found {
		return "", missing()
	}
	return text, nil
}

// media answers for an init segment or a segment.
func (s *Service) media(w http.ResponseWriter, r *http.Request, q request, dir, file string) error {
	number := -1 // the init segment
	if file != "init.mp4" {
		digits, ok := strings.CutSuffix(file, ".m4s")
		n, err := strconv.Atoi(digits)
		if !ok || err != nil || n < 0 {
			return missing()
		}
		number = n
	}
	c, err := s.view(r.Context(), q, func(c committed) bool {
		_, found := locate(q.presented(c), dir, number)
		return found
	})
	if err != nil {
		return err
	}
	res, found := locate(q.presented(c), dir, number)
	if !found {
		return missing()
	}
	res.cache = q.cache()
	s.send(w, r, res)
	return nil
}

// locate finds a segment, or the init segment with number -1, among what is
// committed.
func locate(c committed, dir string, number int) (resource, bool) {
	if dir == playlist.AudioName {
		return locateAudio(c, number)
	}
	index := 0
	if number >= 0 {
		var found bool
		if index, found = c.Plan.ChunkOfSegment(number); !found {
			return resource{}, false
		}
	}
	if index >= len(c.Chunks) || c.Chunks[index] == nil {
		return resource{}, false
	}
	for _, out := range c.Chunks[index].Renditions {
		if out.Name != dir {
			continue
		}
		at := out.Init
		if number >= 0 {
			n := number - c.Plan.FirstSegment(index)
			if n >= len(out.Segments) {
				return resource{}, false
			}
			at = out.Segments[n].Range
		}
		return resource{blob: out.Blob, offset: at.Offset, length: at.Length, contentType: typeVideo}, true
	}
	return resource{}, false
}

func locateAudio(c committed, number int) (resource, bool) {
	for _, part := range c.Parts {
		if number < 0 && part.First == 0 { // the others have none
			return resource{blob: part.Blob, offset: part.Init.Offset, length: part.Init.Length, contentType: typeAudio}, true
		}
		if n := number - part.First; n >= 0 && n < len(part.Segments) {
			at := part.Segments[n].Range
			return resource{blob: part.Blob, offset: at.Offset, length: at.Length, contentType: typeAudio}, true
		}
	}
	return resource{}, false
}

// extra answers for the files beside the stream.
func (s *Service) extra(w http.ResponseWriter, r *http.Request, q request, name string) error {
	has := committed.complete
	switch name {
	case "poster.jpg":
		has = func(c committed) bool { return poster(c) != "" }
	case "storyboard.vtt", "storyboard.jpg", "download.mp4":
	default:
		return missing()
	}
	c, err := s.view(r.Context(), q, has)
	if err != nil {
		return err
	}
	res := resource{cache: q.cache()}
	var finish video.FinishOutput
	if c.finish != nil {
		finish = *c.finish
	}
	switch name {
	case "poster.jpg":
		res.blob, res.contentType = poster(c), typePicture
	case "storyboard.vtt":
		res.blob, res.contentType = finish.Storyboard, typeCaption
	case "storyboard.jpg":
		res.blob, res.contentType = finish.Sprite, typePicture
	case "download.mp4":
		res.blob, res.contentType = finish.Download, typeVideo
		res.filename = mime.FormatMediaType("attachment", map[string]string{"filename": Filename(q.video.Title) + ".mp4"})
	}
	if res.blob == "" {
		return missing()
	}
	info, err := s.blobs.Head(r.Context(), video.MediaContainer, res.blob)
	if err != nil {
		return fmt.Errorf("look at %s: %w", res.blob, err)
	}
	res.length = info.Size
	s.send(w, r, res)
	return nil
}

// file answers for a file that a step left with the video: META names it, so it
// costs no further read.
func (s *Service) file(w http.ResponseWriter, r *http.Request, q request, path string) error {
	step, name, _ := strings.Cut(path, "/")
	made, _ := q.video.MadeBy(step, q.generation)
	for _, f := range made.Files {
		if f.Name == name {
			s.send(w, r, resource{blob: f.Blob, length: f.Bytes, contentType: f.ContentType, cache: q.cache()})
			return nil
		}
	}
	return missing()
}

// poster is the finish step's, or that of the chunk that made it.
func poster(c committed) string {
	if c.finish != nil && c.finish.Poster != "" {
		return c.finish.Poster
	}
	for _, chunk := range c.Chunks {
		if chunk != nil && chunk.Poster != "" {
			return chunk.Poster
		}
	}
	return ""
}

// Filename makes a title safe as the name of a file on any disk.
func Filename(title string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r): // also right-to-left override
			return -1
		case strings.ContainsRune(`/\:*?"<>|`, r):
			return '_'
		}
		return r
	}, title)
	clean = strings.Trim(clean, " .-")
	if runes := []rune(clean); len(runes) > 80 {
		clean = string(runes[:80])
	}
	if clean == "" {
		return "video"
	}
	return clean
}

func missing() error {
	return problem.New(problem.NotFound, "There is no such file.")
}
