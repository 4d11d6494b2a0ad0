// Package captions takes subtitles of a video and shows them.
package captions

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/captions"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/httpapi"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/recent"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

type server struct {
	*httpapi.Server
	all *recent.Cache[engine.ID, []engine.Run] // of a video, read for all who ask at once
}

var notReady = problem.Code{Name: "captions_not_ready", Status: http.StatusNotFound}

// maxVideos is of how many videos the captions are remembered.
const maxVideos = 64

// New returns the feature.
func New(core *httpapi.Server) web.Feature {
	s := &server{core, recent.New(maxVideos, func(ctx context.Context, id engine.ID) ([]engine.Run, error) {
		return captions.All(ctx, core.Videos, id)
	})}
	f := feature(s)
	f.Plays, f.Extend = map[string]web.Files{"captions": s.file}, s.extend
	f.Problems = []problem.Answer{
		problem.When(captions.ErrLanguage, problem.InvalidParameter, "This is not the BCP 47 tag of a language, such as en or pt-BR."),
		problem.When(captions.ErrLanguages, problem.StateConflict, "This video has captions in as many languages as it may. Remove some."),
	}
	f.Links = func(v video.Video, l *api.Links) { l.Captions = new(web.PathOf(v.ID) + "/captions") }
	return f
}

// CreateCaptions implements POST /videos/{id}/captions/{language}: first the file,
// then the row with the promise of the work item, then the message (Q9). The file
// is named by its hash, so that sending it again asks for nothing new.
func (s *server) CreateCaptions(c *gin.Context, id api.ID, language api.Language) {
	web.Handle(c, http.StatusAccepted, func(ctx context.Context) (out api.Captions, _ error) {
		key, err := captions.Key(id, language)
		if err == nil {
			_, err = web.WantType(c.Request, "text/vtt", "application/x-subrip", "text/plain")
		}
		if err != nil {
			return out, err
		}
		file, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, captions.MaxBytes))
		if err != nil {
			return out, fmt.Errorf("read body: %w", err)
		}
		input := captions.Blob(key.ID, key.Variant, web.HashOf(file))
		// Written anew even when it is there: the janitor spares what is young.
		_, err = s.Blobs.Put(ctx, engine.SourcesContainer, input, file, blobstore.Options{ContentType: "text/plain"})
		if err != nil {
			return out, err
		}
		asked, err := captions.Request(ctx, s.Videos, key, input)
		if err != nil {
			return out, err
		}
		out, err = publicCaptions(asked)
		c.Header("Location", out.Links.Self)
		return out, err
	})
}

// GetCaptions implements GET /videos/{id}/captions/{language}.
func (s *server) GetCaptions(c *gin.Context, id api.ID, language api.Language) {
	file, err := s.captionsFile(c.Request.Context(), id, language)
	if err != nil {
		problem.Abort(c, err)
		return
	}
	c.Header("Cache-Control", "no-cache")
	c.Data(http.StatusOK, "text/vtt; charset=utf-8", file)
}

func (s *server) captionsFile(ctx context.Context, id engine.ID, language string) ([]byte, error) {
	key, err := captions.Key(id, language)
	if err != nil {
		return nil, err
	}
	run, err := s.Videos.ReadRun(ctx, key)
	if err != nil {
		return nil, err
	}
	out, err := engine.OutputOf[captions.Output](run)
	switch {
	case err != nil:
		return nil, err
	case out == nil && run.State == engine.RunFailed:
		return nil, problem.New(problem.Code{Name: string(run.Error.Code), Status: http.StatusConflict}, "%s", run.Error.Detail)
	case out == nil:
		return nil, problem.New(notReady, "The captions are being made.").After(1)
	}
	file, err := s.Blobs.Get(ctx, engine.MediaContainer, out.Blob)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", run.Key, err)
	}
	return file[:min(int64(len(file)), out.Bytes)], nil
}

// ListCaptions implements GET /videos/{id}/captions: one row range of the video's
// partition (T5).
func (s *server) ListCaptions(c *gin.Context, id api.ID) {
	web.Handle(c, http.StatusOK, func(ctx context.Context) (out api.CaptionsList, _ error) {
		all, err := captions.All(ctx, s.Videos, id)
		out.Items = make([]api.Captions, len(all))
		for i := 0; i < len(all) && err == nil; i++ {
			out.Items[i], err = publicCaptions(all[i])
		}
		return out, err
	})
}

// DeleteCaptions implements DELETE /videos/{id}/captions/{language}.
func (s *server) DeleteCaptions(c *gin.Context, id api.ID, language api.Language) {
	key, err := captions.Key(id, language)
	if err == nil {
		err = s.Videos.DropRequest(c.Request.Context(), engine.Run{Key: key})
	}
	web.Reply(c, http.StatusNoContent, nil, err)
}

func publicCaptions(run engine.Run) (api.Captions, error) {
	id, language := run.Key.ID, run.Key.Variant
	out := api.Captions{
		Language: language, Name: captions.Name(language), VideoId: string(id),
		State: api.CaptionsState(httpapi.StateOf(run)), CreatedAt: run.CreatedAt, Error: httpapi.FailureOf(run),
	}
	out.Links.Self = web.PathOf(id) + "/captions/" + language
	made, err := engine.OutputOf[captions.Output](run)
	if made != nil {
		out.Cues, out.LeftOut, out.Links.Media = &made.Cues, &made.LeftOut, new("/v/"+string(id)+"/captions/"+language+".vtt")
		out.Charset = api.Some(made.Charset)
	}
	return out, err
}

// file is {language}.vtt, the captions, {language}.m3u8, their playlist, or {language}/0.vtt,
// the captions as the one segment of that: each costs a point read more than a segment of the video.
func (s *server) file(ctx context.Context, v video.Video, path string) (none web.File, _ error) {
	file, isPlaylist := strings.CutSuffix(path, ".m3u8")
	name, isText := strings.CutSuffix(file, ".vtt")
	language, isSegment := strings.CutSuffix(name, "/0")
	key, err := captions.Key(v.ID, language)
	if isPlaylist == isText || isPlaylist && isSegment || err != nil {
		return none, web.NoFile()
	}
	run, err := s.Videos.ReadRun(ctx, key)
	if err != nil {
		return none, err
	}
	out, err := engine.OutputOf[captions.Output](run)
	switch {
	case err != nil:
		return none, err
	case out == nil:
		return none, web.NoFile()
	case isPlaylist:
		return web.File{Text: captions.Playlist(language, v.DurationSeconds), ContentType: playlist.ContentType}, nil
	}
	// Another file may take the place of this one at the same address.
	return web.File{Blob: out.Blob, Bytes: out.Bytes, ContentType: "text/vtt; charset=utf-8"}, nil
}

// extend adds the captions that are there now to a multivariant playlist. A list that was read
// before may lack some.
func (s *server) extend(ctx context.Context, id engine.ID, master string) (string, error) {
	all, err := s.all.Get(ctx, id, func([]engine.Run, time.Duration) bool { return false })
	if err != nil {
		return "", err
	}
	var tracks []captions.Track
	for _, run := range all {
		if language := run.Key.Variant; len(run.Output) > 0 {
			tracks = append(tracks, captions.Track{Language: language, Name: captions.Name(language)})
		}
	}
	return captions.AddTo(master, tracks), nil
}
