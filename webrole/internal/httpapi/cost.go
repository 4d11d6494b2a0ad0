package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/price"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

// GetCost implements GET /videos/{id}/cost.
func (s *Server) GetCost(c *gin.Context, _ api.ID) {
	v, now, err := s.videoNow(c)
	reply(c, http.StatusOK, costOf(v.Generation, now.runs, s.Prices), err)
}

// costOf adds up what the runs spent, and prices it.
func costOf(generation int, runs []stepRun, prices price.Table) api.Cost {
	out := api.Cost{Generation: generation, Requests: []api.RequestCost{}, Steps: []api.StepCost{}}
	var all videostore.Usage
	for _, r := range runs {
		spent, notCounted := r.TotalUsage()
		all.Add(spent)
		ended := r.Attempts
		if r.State == videostore.StepRunning {
			ended--
			out.AttemptsRunning++
		}
		out.AttemptsCounted += ended - notCounted
		out.AttemptsNotCounted += notCounted
		out.Steps = addStep(out.Steps, r.Key.Step, ended-notCounted, spent, prices)
	}
	for _, kind := range azstorage.RequestKinds() {
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
func addStep(steps []api.StepCost, name string, counted int, spent videostore.Usage, prices price.Table) []api.StepCost {
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
