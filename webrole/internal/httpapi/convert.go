package httpapi

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

func (s *Server) publicVideo(rec videostore.Record, progress videostore.Progress) api.Video {
	v := rec.Subject
	out := api.Video{
		Id: string(v.ID), Title: v.Title, Description: v.Description,
		Actors: list(v.Actors), Directors: list(v.Directors), Tags: list(v.Tags),
		Channel: v.Channel, Visibility: v.Visibility, Priority: v.Priority,
		State: v.State, Playable: v.Playable, Fingerprint: api.Some(v.Fingerprint),
		Progress: progress, Error: v.Error, Race: v.Race,
		SizeBytes: v.SizeBytes, DurationSeconds: v.DurationSeconds, Width: v.Width, Height: v.Height, Fps: v.FPS.Float(),
		CreatedAt: v.CreatedAt, ReadyAt: api.Some(v.ReadyAt), Etag: encodeETag(rec.ETag), Links: s.links(v), Made: made(v, s.Links.Base(v)),
		Renditions: api.Each(v.Renditions, func(r video.Rendition) api.Rendition {
			return api.Rendition{Name: r.Name, Width: r.Width, Height: r.Height, Bandwidth: r.MaxRate}
		}),
		Notices: api.Each(v.Notices, func(n video.Notice) api.Notice { return api.Notice{Code: string(n), Detail: n.Detail()} }),
	}
	if !v.Visibility.Linked() {
		out.Visibility = video.Private
	}
	return out
}

// links says where a video's things are. Playback addresses appear when they answer.
func (s *Server) links(v video.Video) api.Links {
	self := pathOf(v.ID)
	play := s.Links.Base(v)
	l := api.Links{Self: self, Steps: self + "/steps", Watch: "/watch/" + string(v.ID), Captions: new(self + "/captions")}
	if v.State == engine.AwaitingUpload {
		l.Content, l.Upload = new(self+"/content"), new(self+"/upload")
	}
	if v.Playable {
		l.Views = new(self + "/views")
		l.Master = new(play + "/master.m3u8")
	}
	if v.Serving > 0 { // the chunk that makes the poster may be a late one
		l.Poster = new(play + "/poster.jpg")
		l.Storyboard, l.Download = new(play+"/storyboard.vtt"), new(play+"/download.mp4")
		l.Clips = new(self + "/clips")
	}
	return l
}

// made is what steps left with the generation that plays.
func made(v video.Video, base string) (all []api.Made) {
	for _, m := range v.Made {
		if m.Generation != v.Playing() {
			continue
		}
		out := api.Made{Step: m.Step, Facts: m.Facts, Files: []api.MadeFile{}}
		for _, f := range m.Files {
			url := fmt.Sprintf("%s/files/%s/%s?g=%d", base, m.Step, f.Name, m.Generation)
			out.Files = append(out.Files, api.MadeFile{Name: f.Name, Url: url, ContentType: f.ContentType, Bytes: f.Bytes})
		}
		all = append(all, out)
	}
	return all
}

func stepFailure(s engine.Run) *engine.Failure {
	if s.State != engine.RunFailed {
		return nil
	}
	return s.Error
}

// The table service's ETag holds quotes and a time; ours is the same text in
// base64url between quotes, so that it is one opaque word in JSON and in headers.

func encodeETag(storage string) string {
	return `"` + base64.RawURLEncoding.EncodeToString([]byte(storage)) + `"`
}

// decodeIfMatch returns the storage ETag of an If-Match header, "" for "*" and for a header
// that is missing. The quotes may be missing, as people paste them. What cannot be one of
// ours matches no version: 412, like a stale one.
func decodeIfMatch(header string) (string, error) {
	text := strings.TrimSpace(header)
	if header == "" || text == "*" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.Trim(strings.TrimPrefix(text, "W/"), `"`))
	if err != nil || len(raw) == 0 {
		return "", problem.New(problem.PreconditionFail, "If-Match is not a version of this.")
	}
	return string(raw), nil
}

// needIfMatch is decodeIfMatch for an operation that must not overwrite what its client
// has not read.
func needIfMatch(header string) (string, error) {
	if header == "" {
		return "", problem.New(problem.PreconditionNeed, "Send the etag as If-Match.")
	}
	return decodeIfMatch(header)
}
