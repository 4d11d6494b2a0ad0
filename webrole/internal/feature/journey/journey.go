// Package journey shows the way of a video through the steps, and what it cost.
package journey

import (
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/price"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/httpapi"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

type server struct {
	*httpapi.Server
	prices price.Table
}

// New returns the feature.
func New(core *httpapi.Server, prices price.Table) web.Feature {
	return feature(&server{core, prices})
}

// GetJourney implements GET /videos/{id}/journey.
func (s *server) GetJourney(c *gin.Context, _ api.ID) {
	v, runs, err := s.VideoNow(c)
	web.Reply(c, http.StatusOK, journey(v, runs, time.Now().UTC(), httpapi.DisclosedTo(c, v)), err)
}

// journey puts the runs on one time axis, which holds every moment that is known of them.
// Nothing known is a point.
func journey(v video.Video, runs []httpapi.StepRun, now time.Time, shown httpapi.Disclosed) api.Journey {
	out := api.Journey{Generation: v.Generation, Now: now, Items: make([]api.JourneyItem, len(runs))}
	var moments []time.Time
	goesOn := v.Working()
	if v.Generation == 1 {
		moments = append(moments, v.UploadedAt)
	}
	for i, r := range runs {
		item := api.JourneyItem{
			Step: r.Key.Step, Index: r.Key.Index, State: api.JourneyItemState(r.State),
			AttemptsMade: r.Attempts, Attempts: []api.Attempt{}, WaitingSince: api.Some(r.Since),
		}
		if r.Planned {
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
		moments = append(moments, r.Since)
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

func attempt(a engine.Attempt, shown httpapi.Disclosed) api.Attempt {
	return api.Attempt{
		Number: a.Number, Worker: shown.Worker(a.Worker), QueuedAt: api.Some(a.Queued), StartedAt: a.Started,
		EndedAt: api.Some(a.Ended), Outcome: api.AttemptOutcome(a.Outcome), Error: api.Some(shown.Reason(a.Error)),
	}
}

// GetCost implements GET /videos/{id}/cost.
func (s *server) GetCost(c *gin.Context, _ api.ID) {
	v, runs, err := s.VideoNow(c)
	web.Reply(c, http.StatusOK, costOf(v.Generation, runs, s.prices), err)
}

func costOf(generation int, runs []httpapi.StepRun, prices price.Table) api.Cost {
	out := api.Cost{Generation: generation, Requests: []api.RequestCost{}, Steps: []api.StepCost{}}
	var all engine.Usage
	for _, r := range runs {
		spent, notCounted := r.TotalUsage()
		all.Add(spent)
		ended := r.Attempts
		if r.State == engine.RunRunning {
			ended--
			out.AttemptsRunning++
		}
		out.AttemptsCounted += ended - notCounted
		out.AttemptsNotCounted += notCounted
		out.Steps = addStep(out.Steps, r.Key.Step, ended-notCounted, spent, prices)
	}
	for _, kind := range azstore.RequestKinds() {
		if n := all.Requests[kind]; n > 0 {
			out.Requests = append(out.Requests, api.RequestCost{
				Kind: string(kind), Count: n, DollarsPer10000: prices.Per10000(kind), Dollars: prices.Requests(kind, n),
			})
		}
	}
	dollars := prices.Cost(all)
	out.BytesToStorage, out.BytesFromStorage, out.CpuSeconds = all.Sent, all.Received, all.CPU
	out.Dollars = api.Dollars{Requests: dollars.Requests, Bytes: dollars.Bytes, Cpu: dollars.CPU, Total: dollars.Total()}
	return out
}

// addStep adds a run to its step's line. Runs come in the order of the steps.
func addStep(steps []api.StepCost, name string, counted int, spent engine.Usage, prices price.Table) []api.StepCost {
	if len(steps) == 0 || steps[len(steps)-1].Step != name {
		steps = append(steps, api.StepCost{Step: name})
	}
	line := &steps[len(steps)-1]
	line.Attempts += counted
	for _, n := range spent.Requests {
		line.Requests += n
	}
	line.CpuSeconds += spent.CPU
	line.Dollars += prices.Cost(spent).Total()
	return steps
}
