package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/visible"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/middleware"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/upload"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

// defaultChannel is where videos go whose uploader names no channel.
const defaultChannel = "main"

// CreateVideo implements POST /videos.
func (s *Server) CreateVideo(c *gin.Context, params api.CreateVideoParams) {
	rec, err := s.create(c, params.IdempotencyKey)
	if err == nil {
		c.Header("Location", web.PathOf(rec.Subject.ID))
	}
	s.replyVideo(c, http.StatusCreated, rec, err)
}

func (s *Server) create(c *gin.Context, key string) (none videostore.Record, _ error) {
	body, err := web.ReadJSON[api.NewVideo](c)
	if err != nil {
		return none, err
	}
	v, err := s.newVideo(body)
	if err != nil {
		return none, err
	}
	ctx := c.Request.Context()
	caller := access.IdentityOf(ctx)
	v.Owner = caller.Owner
	if v.Priority == engine.High && !access.May(caller, access.Hurry, v) {
		return none, access.Refused(c)
	}
	if key == "" {
		return s.Videos.Create(ctx, v)
	}
	canonical, err := json.Marshal(body) // without white space, its members in one order
	if err != nil {
		return none, fmt.Errorf("hash body: %w", err)
	}
	return s.Videos.CreateOnce(ctx, key, web.HashOf(canonical), v)
}

// newVideo checks what the document cannot say, and fills in defaults.
func (s *Server) newVideo(body api.NewVideo) (video.Video, error) {
	now := time.Now().UTC().Truncate(time.Millisecond)
	v := video.Video{
		Meta: engine.Meta{
			ID: engine.NewID(), Channel: defaultChannel, Priority: engine.Normal, State: engine.AwaitingUpload,
			Generation: 1, CreatedAt: now, UpdatedAt: now, SizeBytes: body.SizeBytes,
		},
		Visibility: video.Public, Fingerprint: body.Fingerprint,
	}
	if v.SizeBytes > upload.MaxSize {
		return v, problem.New(problem.FileTooLarge, "A file may have at most %d bytes.", int64(upload.MaxSize))
	}
	if v.Fingerprint != "" && !visible.Is(v.Fingerprint, "") {
		return v, web.Invisible("fingerprint")
	}
	edit := api.VideoEdit{
		Title: &body.Title, Description: body.Description, Actors: body.Actors, Directors: body.Directors,
		Tags: body.Tags, Channel: body.Channel, Visibility: body.Visibility, Priority: body.Priority,
	}
	if body.Race != nil {
		edit.Race = &api.RaceEdit{Event: body.Race.Event, FirstFrameAt: &body.Race.FirstFrameAt}
	}
	return v, s.apply(&v, edit)
}

func (s *Server) apply(v *video.Video, edit api.VideoEdit) error {
	var bad string
	line := func(name string, dst, src *string) {
		if src == nil {
			return
		}
		*dst = strings.TrimSpace(*src)
		if !visible.Is(*dst, "") {
			bad = name
		}
	}
	lines := func(name string, dst, src *[]string) {
		if src == nil {
			return
		}
		*dst = make([]string, len(*src))
		for i := range *src {
			line(name, &(*dst)[i], &(*src)[i])
		}
	}
	line("title", &v.Title, edit.Title)
	line("channel", &v.Channel, edit.Channel)
	lines("actors", &v.Actors, edit.Actors)
	lines("directors", &v.Directors, edit.Directors)
	lines("tags", &v.Tags, edit.Tags)
	if edit.Description != nil {
		v.Description = strings.TrimSpace(*edit.Description)
		if v.Description != "" && !visible.Is(v.Description, "\n\r\t") {
			bad = "description"
		}
	}
	if edit.Visibility != nil {
		v.Visibility = *edit.Visibility
	}
	if edit.Priority != nil {
		v.Priority = *edit.Priority
	}
	if bad != "" {
		return web.Invisible(bad)
	}
	if edit.Race != nil {
		if err := setRace(v, *edit.Race); err != nil {
			return err
		}
	}
	for _, f := range s.Features {
		if f.Check != nil {
			if err := f.Check(*v); err != nil {
				return err
			}
		}
	}
	return nil
}

// setRace says which race a video shows, and since when; the index step does the
// rest. Without an event it shows none.
func setRace(v *video.Video, race api.RaceEdit) error {
	if race.Event == "" {
		v.Race = nil
		return nil
	}
	if race.FirstFrameAt == nil {
		return problem.New(problem.InvalidBody, "Member /race/firstFrameAt: an event needs it.")
	}
	v.Race = &video.Race{Event: race.Event, FirstFrameAt: race.FirstFrameAt.UTC().Truncate(time.Millisecond)}
	return nil
}

// GetVideo implements GET /videos/{id}.
func (s *Server) GetVideo(c *gin.Context, _ api.ID) {
	s.replyVideo(c, http.StatusOK, access.Video(c), nil)
}

// EditVideo implements PATCH /videos/{id}: META and the intent to index change
// together, and the index follows (T8).
func (s *Server) EditVideo(c *gin.Context, id api.ID, params api.EditVideoParams) {
	ifMatch, err := web.NeedIfMatch(params.IfMatch)
	var body api.VideoEdit
	if err == nil {
		body, err = web.ReadJSON[api.VideoEdit](c)
	}
	var rec videostore.Record
	if err == nil {
		rec, err = s.Videos.Change(c.Request.Context(), id, ifMatch, func(v *video.Video) ([]engine.OutboxMessage, error) {
			return []engine.OutboxMessage{workflow.Declaration.FollowMessage()}, s.edit(c, v, body)
		})
	}
	s.replyVideo(c, http.StatusOK, rec, err)
}

func (s *Server) edit(c *gin.Context, v *video.Video, body api.VideoEdit) error {
	ctx := c.Request.Context()
	if err := access.MaySee(ctx, *v); err != nil {
		return err
	}
	before := v.Priority
	if err := s.apply(v, body); err != nil {
		return err
	}
	if v.Priority == engine.High && before != engine.High && !access.May(access.IdentityOf(ctx), access.Hurry, *v) {
		return access.Refused(c)
	}
	return nil
}

// DeleteVideo implements DELETE /videos/{id}.
func (s *Server) DeleteVideo(c *gin.Context, id api.ID, params api.DeleteVideoParams) {
	ifMatch, err := web.DecodeIfMatch(params.IfMatch)
	if err == nil {
		_, err = s.Videos.Delete(c.Request.Context(), id, ifMatch)
	}
	web.Reply(c, http.StatusAccepted, nil, err)
}

// RetryVideo implements POST /videos/{id}/retry.
func (s *Server) RetryVideo(c *gin.Context, id api.ID) { s.change(c, id, s.Videos.Retry) }

// CancelVideo implements POST /videos/{id}/cancel.
func (s *Server) CancelVideo(c *gin.Context, id api.ID) { s.change(c, id, s.Videos.Cancel) }

// ReprocessVideo implements POST /videos/{id}/reprocess.
func (s *Server) ReprocessVideo(c *gin.Context, id api.ID) { s.change(c, id, s.Videos.Reprocess) }

func (s *Server) change(c *gin.Context, id api.ID, change func(context.Context, engine.ID) (videostore.Record, error)) {
	rec, err := change(c.Request.Context(), id)
	s.replyVideo(c, http.StatusAccepted, rec, err)
}

// replyVideo answers with a video and its progress, or with the problem of err. When the
// rows that say the progress cannot be read, the answer has what META says.
func (s *Server) replyVideo(c *gin.Context, status int, rec videostore.Record, err error) {
	if err != nil {
		problem.Abort(c, err)
		return
	}
	ctx := c.Request.Context()
	progress, exact := videostore.QuickProgress(rec.Subject)
	if !exact {
		if now, err := s.snapshot(ctx, rec); err == nil {
			progress = now.progress
		}
	}
	out := s.publicVideo(rec, progress)
	out.MayChange = new(access.May(access.IdentityOf(ctx), access.Change, rec.Subject))
	c.Header("ETag", out.Etag)
	c.JSON(status, out)
}

// mediaTypes are those of a body that may be a bare file.
var mediaTypes = []string{"application/octet-stream", "video/*"}

func init() {
	for _, c := range video.Containers {
		mediaTypes = append(mediaTypes, c.Types...)
	}
}

// PutContent implements PUT /videos/{id}/content.
func (s *Server) PutContent(c *gin.Context, _ api.ID, params api.PutContentParams) {
	r := c.Request
	if r.Header.Get("Content-Type") == "" { // curl -T sends none
		r.Header.Set("Content-Type", mediaTypes[0])
	}
	_, err := web.WantType(r, mediaTypes...)
	if r.ContentLength < 0 {
		err = problem.New(problem.LengthRequired, "Send a Content-Length.")
	}
	var sum []byte
	if err == nil {
		sum, err = upload.ParseMD5(params.ContentMD5)
	}
	if err != nil {
		web.RefuseBody(c, err)
		return
	}
	middleware.StreamsIn(r)
	rec, err := s.Uploads.Put(r.Context(), access.Video(c), r.Body, r.ContentLength, sum)
	if err != nil {
		web.RefuseBody(c, err)
		return
	}
	s.replyVideo(c, http.StatusAccepted, rec, nil)
}

// GetUpload implements GET /videos/{id}/upload. The URLs in the answer are
// secrets: they are never logged.
func (s *Server) GetUpload(c *gin.Context, _ api.ID) {
	out, err := s.Uploads.Status(c.Request.Context(), access.Video(c).Subject)
	web.Reply(c, http.StatusOK, out, err)
}

// BeginUpload implements POST /videos/{id}/upload.
func (s *Server) BeginUpload(c *gin.Context, _ api.ID) {
	web.Handle(c, http.StatusOK, func(ctx context.Context) (out api.Upload, _ error) {
		body, err := web.ReadOptional[api.UploadBegin](c)
		if err != nil {
			return out, err
		}
		return s.Uploads.Begin(ctx, access.Video(c), body.SizeBytes, body.Anew)
	})
}

// CompleteUpload implements POST /videos/{id}/upload/complete.
func (s *Server) CompleteUpload(c *gin.Context, _ api.ID) {
	body, err := web.ReadOptional[api.UploadComplete](c)
	sums := make([][]byte, len(body.Md5))
	for i := 0; i < len(sums) && err == nil; i++ {
		sums[i], err = upload.ParseMD5(body.Md5[i])
	}
	var rec videostore.Record
	if err == nil {
		rec, err = s.Uploads.Complete(c.Request.Context(), access.Video(c).Subject, sums)
	}
	s.replyVideo(c, http.StatusAccepted, rec, err)
}
