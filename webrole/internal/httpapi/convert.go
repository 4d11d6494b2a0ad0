package httpapi

import (
	"slices"
	"time"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

// publicVideo is a video as the API shows it.
func publicVideo(rec videostore.Record, progress videostore.Progress) api.Video {
	v := rec.Video
	out := api.Video{
		Id: string(v.ID), Title: v.Title, Description: v.Description,
		Actors: list(v.Actors), Directors: list(v.Directors), Tags: list(v.Tags),
		Channel: v.Channel, Visibility: api.Visibility(v.Visibility), Priority: api.Priority(v.Priority),
		State: api.State(v.State), Playable: v.Playable,
		Progress:  api.Progress{Percent: progress.Percent, ChunksDone: progress.ChunksDone, ChunksTotal: progress.ChunksTotal},
		SizeBytes: v.SizeBytes, DurationSeconds: v.DurationSeconds, Width: v.Width, Height: v.Height, Fps: v.FPS.Float(),
		Renditions: []api.Rendition{}, CreatedAt: v.CreatedAt, Etag: encodeETag(rec.ETag), Links: links(rec),
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
	return out
}

// list makes JSON's [] of a nil slice.
func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// timeline is every step of the newest generation, in the order of the work:
// those that have a row, and those that are planned and have none yet.
func timeline(view videostore.View) []api.Step {
	generation := view.Video.Generation
	steps := []api.Step{}
	has := map[videostore.StepKey]bool{}
	for _, s := range view.Steps {
		if s.Key.Generation == generation {
			has[s.Key] = true
			steps = append(steps, publicStep(s))
		}
	}
	planned := func(name string, index int) {
		key := videostore.StepKey{ID: view.Video.ID, Generation: generation, Step: name, Index: index}
		if !has[key] {
			steps = append(steps, publicStep(videostore.Step{Key: key, State: videostore.StepQueued}))
		}
	}
	if plan, found := view.Plans[generation]; found && view.Video.State != video.Deleting {
		for i := range plan.Chunks {
			planned(videostore.StepEncode, i)
		}
		for i := range plan.SoundItems() {
			planned(videostore.StepAudio, i)
		}
	}
	slices.SortStableFunc(steps, func(a, b api.Step) int {
		if d := slices.Index(pipeline, a.Step) - slices.Index(pipeline, b.Step); d != 0 {
			return d
		}
		return a.Index - b.Index
	})
	return steps
}

var pipeline = []string{videostore.StepProbe, videostore.StepEncode, videostore.StepAudio, videostore.StepFinish}

func publicStep(s videostore.Step) api.Step {
	out := api.Step{
		Generation: s.Key.Generation, Step: s.Key.Step, Index: s.Key.Index, State: string(s.State), Attempts: s.Attempts,
		Started: moment(s.StartedAt), Finished: moment(s.FinishedAt),
	}
	if s.Worker != "" {
		out.Worker = &s.Worker
	}
	if s.Error != nil {
		out.Error = ptr(string(s.Error.Code) + ": " + s.Error.Detail)
	}
	return out
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
