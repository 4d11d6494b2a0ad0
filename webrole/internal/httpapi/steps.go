package httpapi

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

// StepRun is one run of a step: one that has a row, or one that the plan promises.
type StepRun struct {
	engine.Run
	Planned bool      // no message asks for it yet
	Since   time.Time // since when it waits; zero when it does not, or it is unknown

	pictures bool    // it makes those of the part
	from, to float64 // of the video, in seconds
}

// stepRunsOf is every run of the newest generation, in the order of the work: those that have a
// row, and those that are promised and have none yet.
func stepRunsOf(view videostore.View) (runs []StepRun) {
	generation := view.Subject.Generation
	has := maps.Clone(view.LeftOut)
	for _, s := range view.Runs {
		if s.Key.Generation == generation {
			has[s.Key] = true
			s.Output = nil // large, and not for the timeline
			run := StepRun{Run: s}
			if s.State == engine.RunQueued {
				run.Since = s.QueuedAt
			}
			runs = append(runs, run)
		}
	}
	expected := []engine.PlannedStep{{Step: workflow.Declaration.Only(engine.First), Items: 1}}
	if plan, found := view.Plans[generation]; found && view.Subject.State != engine.Deleting {
		for _, stage := range []engine.Stage{engine.Gate, engine.Part, engine.AfterReady} {
			expected = append(expected, workflow.Declaration.StepsIn(plan.Plan, stage)...)
		}
	}
	asked := view.Asked()
	for _, p := range expected {
		for i := range p.Items {
			key := engine.Key{ID: view.Subject.ID, Generation: generation, Step: p.Step.Name, Index: i}
			if has[key] {
				continue
			}
			if since, promised := asked[key]; promised || p.Step.Stage != engine.First {
				runs = append(runs, StepRun{Run: engine.Run{Key: key, State: engine.RunQueued}, Planned: !promised, Since: since})
			}
		}
	}
	for i := range runs {
		step, _ := workflow.Declaration.Find(runs[i].Key.Step)
		runs[i].from, runs[i].to, runs[i].pictures = workflow.Span(step, view.Plans[generation], runs[i].Key.Index)
	}
	slices.SortStableFunc(runs, func(a, b StepRun) int {
		return cmp.Or(workflow.Declaration.Order(a.Key.Step)-workflow.Declaration.Order(b.Key.Step), a.Key.Index-b.Key.Index)
	})
	return runs
}

// ListSteps implements GET /videos/{id}/steps.
func (s *Server) ListSteps(c *gin.Context, _ api.ID) {
	v, runs, err := s.VideoNow(c)
	shown := DisclosedTo(c, v)
	web.Reply(c, http.StatusOK, api.StepList{Items: api.Each(runs, func(r StepRun) api.Step { return publicStep(r, shown) })}, err)
}

func publicStep(r StepRun, shown Disclosed) api.Step {
	out := api.Step{
		Generation: r.Key.Generation, Step: r.Key.Step, Index: r.Key.Index, State: string(r.State), Attempts: r.Attempts,
		Worker: shown.Worker(r.Worker), Started: api.Some(r.StartedAt),
	}
	if r.State == engine.RunDone || r.State == engine.RunFailed {
		out.Finished = api.Some(r.FinishedAt) // else it is the end of an earlier attempt
	}
	if r.Error != nil {
		out.Error = new(shown.Reason(string(r.Error.Code) + ": " + r.Error.Detail))
	}
	if r.pictures {
		out.From, out.To = &r.from, &r.to
	}
	return out
}

// snapshot is what the rows of a video say beyond META.
type snapshot struct {
	etag     string // of the META that was read with them
	progress videostore.Progress
	runs     []StepRun
}

const (
	maxSnapshots = 64
	// snapshotLife is how long a page may be shown the same progress. Whatever
	// changes META, such as the end of the last step, is seen at once.
	snapshotLife = time.Second
)

// snapshot reads all rows of a video, or shares what others have just read.
func (s *Server) snapshot(ctx context.Context, rec videostore.Record) (snapshot, error) {
	return s.snapshots.Get(ctx, rec.Subject.ID, func(known snapshot, age time.Duration) bool {
		return known.etag == rec.ETag && age < snapshotLife
	})
}

// VideoNow is the video of the route, with the runs of its newest generation.
func (s *Server) VideoNow(c *gin.Context) (video.Video, []StepRun, error) {
	rec := access.Video(c)
	now, err := s.snapshot(c.Request.Context(), rec)
	return rec.Subject, now.runs, err
}

// Disclosed is what a requester is shown of the work on a video: operators the whole of
// every error, others its code, because the rest names hosts and blobs; and those who may
// change the video which workers made it, because their names are those of hosts.
type Disclosed struct{ errors, workers bool }

// DisclosedTo looks at the caller.
func DisclosedTo(c *gin.Context, v video.Video) Disclosed {
	caller := access.IdentityOf(c.Request.Context())
	return Disclosed{errors: access.May(caller, access.Operate, video.Video{}), workers: access.May(caller, access.Change, v)}
}

// retrying stands for an error that the requester is not shown.
const retrying = "retrying"

// failure is the text of a engine.Failure, which is written for the uploader.
var failure = regexp.MustCompile(`^[a-z]+(_[a-z]+)+: `)

// Reason is the text of an error, as far as it is shown.
func (d Disclosed) Reason(text string) string {
	if d.errors || text == "" || failure.MatchString(text) {
		return text
	}
	return retrying
}

// Worker is nil where there is none, or the requester is not shown it.
func (d Disclosed) Worker(name string) *string {
	if !d.workers {
		return nil
	}
	return api.Some(name)
}
