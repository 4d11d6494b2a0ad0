package httpapi

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/registrations"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/visible"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/recent"
	"github.com/cutroom/cutroom/webrole/internal/upload"
)

// defaultChannel is where videos go whose uploader names no channel.
const defaultChannel = "main"

// CreateVideo implements POST /videos.
func (s *Server) CreateVideo(c *gin.Context, params api.CreateVideoParams) {
	var body api.NewVideo
	if err := s.readJSON(c, "NewVideo", &body); err != nil {
		abort(c, err)
		return
	}
	v, err := newVideo(body)
	who := access.From(c.Request.Context())
	v.Owner = who.Owner
	if err == nil && v.Priority == video.High && !access.May(who, access.Hurry, v) {
		err = access.Refused(c.Writer, c.Request.Context())
	}
	if err != nil {
		abort(c, err)
		return
	}
	var rec videostore.Record
	if params.IdempotencyKey != nil {
		var hash string
		if hash, err = hashOf(body); err == nil {
			rec, err = s.videos.CreateOnce(c.Request.Context(), *params.IdempotencyKey, hash, v)
		}
	} else {
		rec, err = s.videos.Create(c.Request.Context(), v)
	}
	if err != nil {
		abort(c, err)
		return
	}
	c.Header("Location", Base+"/videos/"+string(rec.Video.ID))
	s.answer(c, http.StatusCreated, rec)
}

// newVideo checks what the document cannot say, and fills in defaults.
func newVideo(body api.NewVideo) (video.Video, error) {
	now := time.Now().UTC().Truncate(time.Millisecond)
	v := video.Video{
		ID: video.NewID(), Channel: defaultChannel, Visibility: video.Public, Priority: video.Normal,
		State: video.AwaitingUpload, Generation: 1, CreatedAt: now, UpdatedAt: now,
		SizeBytes: value(body.SizeBytes), Fingerprint: value(body.Fingerprint),
	}
	if v.SizeBytes > upload.MaxSize {
		return v, problem.New(http.StatusRequestEntityTooLarge, problem.FileTooLarge, "A file may have at most %d bytes.", int64(upload.MaxSize))
	}
	edit := api.VideoEdit{
		Title: &body.Title, Description: body.Description, Actors: body.Actors, Directors: body.Directors,
		Tags: body.Tags, Channel: body.Channel, Visibility: body.Visibility, Priority: body.Priority,
	}
	if body.Race != nil {
		edit.Race = &api.RaceEdit{Event: body.Race.Event, FirstFrameAt: &body.Race.FirstFrameAt}
	}
	return v, apply(&v, edit)
}

// apply writes the members that are given into v.
func apply(v *video.Video, edit api.VideoEdit) error {
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
		v.Visibility = video.Visibility(*edit.Visibility)
	}
	if edit.Priority != nil {
		v.Priority = video.Priority(*edit.Priority)
	}
	if v.Fingerprint != "" && !visible.Is(v.Fingerprint, "") {
		bad = "fingerprint"
	}
	if bad != "" {
		return problem.New(http.StatusBadRequest, problem.InvalidBody, "Member /%s: it is blank, or has characters that cannot be seen or that change how others are shown.", bad)
	}
	if edit.Race != nil {
		return tie(v, *edit.Race)
	}
	return nil
}

// tie says which race a video shows, and since when; the index step does the
// rest. Without an event it shows none.
func tie(v *video.Video, race api.RaceEdit) error {
	if race.Event == "" {
		v.Race = nil
		return nil
	}
	if race.FirstFrameAt == nil {
		return problem.New(http.StatusBadRequest, problem.InvalidBody, "Member /race/firstFrameAt: an event needs it.")
	}
	v.Race = &video.Race{Event: race.Event, FirstFrameAt: race.FirstFrameAt.UTC().Truncate(time.Millisecond)}
	_, err := registrations.CheckRace(*v.Race)
	return err
}

// GetVideo implements GET /videos/{id}.
func (s *Server) GetVideo(c *gin.Context, id api.ID) {
	rec, err := s.existing(c.Request.Context(), video.ID(id))
	if err != nil {
		abort(c, err)
		return
	}
	s.answer(c, http.StatusOK, rec)
}

// ListSteps implements GET /videos/{id}/steps.
func (s *Server) ListSteps(c *gin.Context, id api.ID) {
	rec, g, err := s.lookAt(c.Request.Context(), video.ID(id))
	if err != nil {
		abort(c, err)
		return
	}
	c.Header("Cache-Control", "no-store")
	c.JSON(http.StatusOK, api.StepList{Items: timeline(g.runs, toldTo(c, rec.Video))})
}

// told says what somebody is told of the work on a video: operators the whole of every
// error, others its code, for the rest names hosts and blobs of ours; and who may change
// the video which workers made it, whose names are those of hosts.
type told struct{ errors, workers bool }

func toldTo(c *gin.Context, v video.Video) told {
	who := access.From(c.Request.Context())
	return told{errors: access.May(who, access.Operate, video.Video{}), workers: access.May(who, access.Change, v)}
}

func (t told) why(text string) string {
	if t.errors || text == "" || failure.MatchString(text) {
		return text
	}
	return retrying
}

// worker is nil for who is not told, and where there is none.
func (t told) worker(name string) *string {
	if !t.workers {
		return nil
	}
	return some(name)
}

// retrying stands for an error that is no business of those who are told of it.
const retrying = "retrying"

// failure is the text of a video.Failure, which is written for the uploader.
var failure = regexp.MustCompile(`^[a-z]+(_[a-z]+)+: `)

// existing reads a video that who asks may see; a tombstone is not found.
func (s *Server) existing(ctx context.Context, id video.ID) (videostore.Record, error) {
	rec, err := s.videos.Get(ctx, id)
	if err == nil {
		err = access.MaySee(ctx, rec.Video)
	}
	return rec, err
}

// glance is what the rows of a video say beyond META.
type glance struct {
	etag     string // of the META that was read with them
	progress videostore.Progress
	runs     []run
}

const (
	maxGlances = 64
	// glanceFor is how long a page may be shown the same progress. Whatever
	// changes META, such as the end of the last step, is seen at once.
	glanceFor = time.Second
)

func newGlances(videos *videostore.Store) *recent.Cache[video.ID, glance] {
	return recent.New(maxGlances, func(ctx context.Context, id video.ID) (glance, error) {
		view, err := videos.Look(ctx, id)
		if err != nil {
			return glance{}, err
		}
		return glance{etag: view.ETag, progress: view.Progress(), runs: runsOf(view)}, nil
	})
}

// look reads all rows of a video, or shares what others have just read.
func (s *Server) look(ctx context.Context, rec videostore.Record) (glance, error) {
	return s.glances.Get(ctx, rec.Video.ID, func(g glance, age time.Duration) bool {
		return g.etag == rec.ETag && age < glanceFor
	})
}

// lookAt is look for an id that somebody gave.
func (s *Server) lookAt(ctx context.Context, id video.ID) (videostore.Record, glance, error) {
	rec, err := s.existing(ctx, id)
	if err != nil {
		return rec, glance{}, err
	}
	g, err := s.look(ctx, rec)
	return rec, g, err
}

// EditVideo implements PATCH /videos/{id}: META and the intent to index change
// together, and the index follows (T8).
func (s *Server) EditVideo(c *gin.Context, id api.ID, params api.EditVideoParams) {
	if params.IfMatch == nil || *params.IfMatch == "" {
		abort(c, problem.New(http.StatusPreconditionRequired, problem.PreconditionNeed, "Send the video's etag as If-Match."))
		return
	}
	ifMatch, err := decodeIfMatch(*params.IfMatch)
	if err != nil {
		abort(c, err)
		return
	}
	var body api.VideoEdit
	if err := s.readJSON(c, "VideoEdit", &body); err != nil {
		abort(c, err)
		return
	}
	who := access.From(c.Request.Context())
	rec, err := s.videos.Change(c.Request.Context(), video.ID(id), ifMatch, func(v *video.Video) ([]videostore.Intent, error) {
		if err := access.MaySee(c.Request.Context(), *v); err != nil {
			return nil, err
		}
		before := v.Priority
		if err := apply(v, body); err != nil {
			return nil, err
		}
		if v.Priority == video.High && before != video.High && !access.May(who, access.Hurry, *v) {
			return nil, access.Refused(c.Writer, c.Request.Context())
		}
		return []videostore.Intent{videostore.FollowIntent()}, nil
	})
	if err != nil {
		abort(c, err)
		return
	}
	s.answer(c, http.StatusOK, rec)
}

// DeleteVideo implements DELETE /videos/{id}.
func (s *Server) DeleteVideo(c *gin.Context, id api.ID, params api.DeleteVideoParams) {
	ifMatch := ""
	if params.IfMatch != nil {
		var err error
		if ifMatch, err = decodeIfMatch(*params.IfMatch); err != nil {
			abort(c, err)
			return
		}
	}
	if _, err := s.videos.Delete(c.Request.Context(), video.ID(id), ifMatch); err != nil {
		abort(c, err)
		return
	}
	c.Status(http.StatusAccepted)
	c.Writer.WriteHeaderNow()
}

// RetryVideo implements POST /videos/{id}/retry.
func (s *Server) RetryVideo(c *gin.Context, id api.ID) { s.change(c, id, s.videos.Retry) }

// CancelVideo implements POST /videos/{id}/cancel.
func (s *Server) CancelVideo(c *gin.Context, id api.ID) { s.change(c, id, s.videos.Cancel) }

// ReprocessVideo implements POST /videos/{id}/reprocess.
func (s *Server) ReprocessVideo(c *gin.Context, id api.ID) { s.change(c, id, s.videos.Reprocess) }

func (s *Server) change(c *gin.Context, id api.ID, change func(context.Context, video.ID) (videostore.Record, error)) {
	ctx := c.Request.Context()
	rec, err := s.existing(ctx, video.ID(id))
	if err == nil {
		rec, err = change(ctx, video.ID(id))
	}
	if err != nil {
		abort(c, err)
		return
	}
	s.answer(c, http.StatusAccepted, rec)
}

// answer writes a record, with its progress when there can be any.
func (s *Server) answer(c *gin.Context, status int, rec videostore.Record) {
	s.write(c, status, rec, s.progress(c.Request.Context(), rec))
}

// progress needs the step rows only when META does not say enough. When they
// cannot be read the answer still stands, with what META says.
func (s *Server) progress(ctx context.Context, rec videostore.Record) videostore.Progress {
	progress, exact := rec.Progress()
	if exact {
		return progress
	}
	g, err := s.look(ctx, rec)
	if err != nil {
		return progress
	}
	return g.progress
}

func (s *Server) write(c *gin.Context, status int, rec videostore.Record, progress videostore.Progress) {
	out := s.publicVideo(rec, progress)
	out.MayChange = ptr(access.May(access.From(c.Request.Context()), access.Change, rec.Video))
	c.Header("ETag", out.Etag)
	c.Header("Cache-Control", "no-store")
	c.JSON(status, out)
}
