package httpapi

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

// stepRun is one run of a step: one that has a row, or one that the plan promises.
type stepRun struct {
	videostore.Step
	planned bool      // no message asks for it yet
	since   time.Time // since when it waits; zero when it does not, or it is unknown

	pictures bool    // it makes those of the part
	from, to float64 // of the video, in seconds
}

// stepRunsOf is every run of the newest generation that is declared to be shown, in the
// order of the work: those that have a row, and those that are promised and have none
// yet.
func stepRunsOf(view videostore.View) (runs []stepRun) {
	generation := view.Video.Generation
	has := maps.Clone(view.LeftOut)
	for _, s := range view.Steps {
		if step, known := workflow.Find(s.Key.Step); s.Key.Generation == generation && (step.Shown() || !known) {
			has[s.Key] = true
			s.Output = nil // large, and not for the timeline
			runs = append(runs, stepRun{Step: s, since: s.WaitingSince()})
		}
	}
	expected := []workflow.Promise{{Step: workflow.OnlyStepIn(workflow.First), Items: 1}}
	if plan, found := view.Plans[generation]; found && view.Video.State != video.Deleting {
		expected = slices.Concat(expected, workflow.Promises(plan, workflow.Part), workflow.Promises(plan, workflow.AfterReady))
	}
	for _, p := range expected {
		for i := range p.Items {
			key := workflow.Key{ID: view.Video.ID, Generation: generation, Step: p.Step.Name, Index: i}
			if has[key] {
				continue
			}
			if asked, since := view.RequestMissing(key); asked || p.Step.Stage != workflow.First {
				runs = append(runs, stepRun{Step: videostore.Step{Key: key, State: videostore.StepQueued}, planned: !asked, since: since})
			}
		}
	}
	for i := range runs {
		step, _ := workflow.Find(runs[i].Key.Step)
		runs[i].from, runs[i].to, runs[i].pictures = step.Span(view.Plans[generation], runs[i].Key.Index)
	}
	slices.SortStableFunc(runs, func(a, b stepRun) int {
		return cmp.Or(workflow.Order(a.Key.Step)-workflow.Order(b.Key.Step), a.Key.Index-b.Key.Index)
	})
	return runs
}

// GetJourney implements GET /videos/{id}/journey.
func (s *Server) GetJourney(c *gin.Context, _ api.ID) {
	v, now, err := s.videoNow(c)
	reply(c, http.StatusOK, journey(v, now.runs, time.Now().UTC(), disclosedTo(c, v)), err)
}

// ListSteps implements GET /videos/{id}/steps.
func (s *Server) ListSteps(c *gin.Context, _ api.ID) {
	v, now, err := s.videoNow(c)
	shown := disclosedTo(c, v)
	reply(c, http.StatusOK, api.StepList{Items: api.Each(now.runs, func(r stepRun) api.Step { return publicStep(r, shown) })}, err)
}

func publicStep(r stepRun, shown disclosed) api.Step {
	out := api.Step{
		Generation: r.Key.Generation, Step: r.Key.Step, Index: r.Key.Index, State: string(r.State), Attempts: r.Attempts,
		Worker: shown.worker(r.Worker), Started: api.Time(r.StartedAt), Finished: api.Time(r.FinishedAt),
	}
	if r.Error != nil {
		out.Error = api.Ptr(shown.reason(string(r.Error.Code) + ": " + r.Error.Detail))
	}
	if r.pictures {
		out.From, out.To = &r.from, &r.to
	}
	return out
}

// journey puts the runs on one time axis, which holds every moment that is known of them.
// Nothing known is a point.
func journey(v video.Video, runs []stepRun, now time.Time, shown disclosed) api.Journey {
	out := api.Journey{Generation: v.Generation, Now: now, Items: make([]api.JourneyItem, len(runs))}
	var moments []time.Time
	goesOn := v.Working()
	if v.Generation == 1 {
		moments = append(moments, v.UploadedAt)
	}
	for i, r := range runs {
		item := api.JourneyItem{
			Step: r.Key.Step, Index: r.Key.Index, State: api.JourneyItemState(r.State),
			AttemptsMade: r.Attempts, Attempts: []api.Attempt{}, WaitingSince: api.Time(r.since),
		}
		if r.planned {
			item.State = api.RunPlanned
		}
		for _, a := range r.AllAttempts() {
			item.Attempts = append(item.Attempts, attempt(a, shown))
			moments = append(moments, a.Queued, a.Started, a.Ended)
			goesOn = goesOn || a.Ended.IsZero()
		}
		if len(item.Attempts) > 0 && item.Attempts[0].Number == 1 {
			item.QueuedAt = item.Attempts[0].QueuedAt
		}
		moments = append(moments, r.since)
		out.Items[i] = item
	}
	moments = slices.DeleteFunc(moments, time.Time.IsZero)
	if len(moments) == 0 {
		moments = []time.Time{v.CreatedAt}
	} else if goesOn {
		moments = append(moments, now)
	}
	out.From, out.To = slices.MinFunc(moments, time.Time.Compare), slices.MaxFunc(moments, time.Time.Compare)
	return out
}

// attempt is an attempt as the API shows it.
func attempt(a videostore.Attempt, shown disclosed) api.Attempt {
	return api.Attempt{
		Number: a.Number, Worker: shown.worker(a.Worker), QueuedAt: api.Time(a.Queued), StartedAt: a.Started,
		EndedAt: api.Time(a.Ended), Outcome: api.AttemptOutcome(a.Outcome), Error: api.Some(shown.reason(a.Error)),
	}
}
