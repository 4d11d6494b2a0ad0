package httpapi

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

// publicVideo is a video as the API shows it.
func (s *Server) publicVideo(rec videostore.Record, progress videostore.Progress) api.Video {
	v := rec.Video
	out := api.Video{
		Id: string(v.ID), Title: v.Title, Description: v.Description,
		Actors: list(v.Actors), Directors: list(v.Directors), Tags: list(v.Tags),
		Channel: v.Channel, Visibility: api.Visibility(v.Visibility), Priority: api.Priority(v.Priority),
		State: api.State(v.State), Playable: v.Playable,
		Progress:  api.Progress{Percent: progress.Percent, ChunksDone: progress.ChunksDone, ChunksTotal: progress.ChunksTotal},
		SizeBytes: v.SizeBytes, DurationSeconds: v.DurationSeconds, Width: v.Width, Height: v.Height, Fps: v.FPS.Float(),
		Renditions: []api.Rendition{}, CreatedAt: v.CreatedAt, Etag: encodeETag(rec.ETag), Links: s.links(rec),
	}
	if !v.Visibility.Linked() {
		out.Visibility = api.Private
	}
	if v.Fingerprint != "" {
		out.Fingerprint = &v.Fingerprint
	}
	if v.Error != nil {
		out.Error = &api.Failure{Code: string(v.Error.Code), Detail: v.Error.Detail}
	}
	if !v.ReadyAt.IsZero() {
		out.ReadyAt = &v.ReadyAt
	}
	if v.Race != nil {
		out.Race = &api.Race{Event: v.Race.Event, FirstFrameAt: v.Race.FirstFrameAt}
	}
	for _, r := range v.Renditions {
		out.Renditions = append(out.Renditions, api.Rendition{Name: r.Name, Width: r.Width, Height: r.Height, Bandwidth: r.MaxRate})
	}
	if len(v.Notices) > 0 {
		notices := make([]api.Notice, len(v.Notices))
		for i, n := range v.Notices {
			notices[i] = api.Notice{Code: string(n), Detail: n.Detail()}
		}
		out.Notices = &notices
	}
	out.Made = made(v, s.tokens.Base(v))
	return out
}

// made is what steps left with the generation that plays.
func made(v video.Video, base string) *[]api.Made {
	var all []api.Made
	for _, m := range v.Made {
		if m.Generation != v.Playing() {
			continue
		}
		out := api.Made{Step: m.Step, Files: []api.MadeFile{}}
		for _, f := range m.Files {
			url := fmt.Sprintf("%s/files/%s/%s?g=%d", base, m.Step, f.Name, m.Generation)
			out.Files = append(out.Files, api.MadeFile{Name: f.Name, Url: url, ContentType: f.ContentType, Bytes: f.Bytes})
		}
		if len(m.Facts) > 0 {
			var facts map[string]any
			if json.Unmarshal(m.Facts, &facts) == nil {
				out.Facts = &facts
			}
		}
		all = append(all, out)
	}
	if all == nil {
		return nil
	}
	return &all
}

// list makes JSON's [] of a nil slice.
func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// timeline is the runs of a video as the API lists them.
func timeline(runs []run, t told) []api.Step {
	steps := make([]api.Step, len(runs))
	for i, r := range runs {
		steps[i] = publicStep(r.Step, t)
		if r.pictures {
			steps[i].From, steps[i].To = &r.from, &r.to
		}
	}
	return steps
}

func publicStep(s videostore.Step, t told) api.Step {
	out := api.Step{
		Generation: s.Key.Generation, Step: s.Key.Step, Index: s.Key.Index, State: string(s.State), Attempts: s.Attempts,
		Worker: t.worker(s.Worker), Started: moment(s.StartedAt), Finished: moment(s.FinishedAt),
	}
	if s.Error != nil {
		out.Error = ptr(t.why(string(s.Error.Code) + ": " + s.Error.Detail))
	}
	return out
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
