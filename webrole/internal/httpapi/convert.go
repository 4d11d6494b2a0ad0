package httpapi

import (
	"fmt"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

func (s *Server) publicVideo(rec videostore.Record, progress videostore.Progress) api.Video {
	v := rec.Subject
	out := api.Video{
		Id: string(v.ID), Title: v.Title, Description: v.Description,
		Actors: web.List(v.Actors), Directors: web.List(v.Directors), Tags: web.List(v.Tags),
		Channel: v.Channel, Visibility: v.Visibility, Priority: v.Priority,
		State: v.State, Playable: v.Playable, Fingerprint: api.Some(v.Fingerprint),
		Progress: progress, Error: v.Error, Race: v.Race,
		SizeBytes: v.SizeBytes, DurationSeconds: v.DurationSeconds, Width: v.Width, Height: v.Height, Fps: v.FPS.Float(),
		CreatedAt: v.CreatedAt, ReadyAt: api.Some(v.ReadyAt), Etag: web.EncodeETag(rec.ETag), Links: s.links(v), Made: made(v, s.Links.Base(v)),
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
	self := web.PathOf(v.ID)
	play := s.Links.Base(v)
	l := api.Links{Self: self, Steps: self + "/steps", Watch: "/watch/" + string(v.ID)}
	if v.State == engine.AwaitingUpload {
		l.Content, l.Upload = new(self+"/content"), new(self+"/upload")
	}
	if v.Playable {
		l.Master = new(play + "/master.m3u8")
	}
	if v.Serving > 0 { // the chunk that makes the poster may be a late one
		l.Poster = new(play + "/poster.jpg")
		l.Storyboard, l.Download = new(play+"/storyboard.vtt"), new(play+"/download.mp4")
	}
	for _, f := range s.Features {
		if f.Links != nil {
			f.Links(v, &l)
		}
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

// FailureOf is why a step failed, nil if it did not.
func FailureOf(s engine.Run) *engine.Failure {
	if s.State != engine.RunFailed {
		return nil
	}
	return s.Error
}

// StateOf is the state of a step that a user asked for, in the words of the API.
func StateOf(step engine.Run) string {
	if step.State == engine.RunDone {
		return "ready"
	}
	return string(step.State)
}
