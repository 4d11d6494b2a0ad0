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

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/price"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/recent"
)

// stepRun is one run of a step: one that has a row, or one that the plan promises.
type stepRun struct {
	engine.Run
	planned bool      // no message asks for it yet
	since   time.Time // since when it waits; zero when it does not, or it is unknown

	pictures bool    // it makes those of the part
	from, to float64 // of the video, in seconds
}

// stepRunsOf is every run of the newest generation that is declared to be shown, in the
// order of the work: those that have a row, and those that are promised and have none
// yet.
func stepRunsOf(view videostore.View) (runs []stepRun) {
	generation := view.Subject.Generation
	has := maps.Clone(view.LeftOut)
	for _, s := range view.Runs {
		if step, known := workflow.Declaration.Find(s.Key.Step); s.Key.Generation == generation && (step.Shown() || !known) {
			has[s.Key] = true
			s.Output = nil // large, and not for the timeline
			run := stepRun{Run: s}
			if s.State == engine.RunQueued {
				run.since = s.QueuedAt
			}
			runs = append(runs, run)
		}
	}
	expected := []engine.Promised{{Step: workflow.Declaration.Only(engine.First), Items: 1}}
	if plan, found := view.Plans[generation]; found && view.Subject.State != engine.Deleting {
		for _, stage := range []engine.Stage{engine.Gate, engine.Part, engine.AfterReady} {
			expected = append(expected, workflow.Declaration.Promised(plan.Plan, stage)...)
		}
	}
	for _, p := range expected {
		for i := range p.Items {
			key := engine.Key{ID: view.Subject.ID, Generation: generation, Step: p.Step.Name, Index: i}
			if has[key] {
				continue
			}
			if asked, since := view.RequestMissing(key); asked || p.Step.Stage != engine.First {
				runs = append(runs, stepRun{Run: engine.Run{Key: key, State: engine.RunQueued}, planned: !asked, since: since})
			}
		}
	}
	for i := range runs {
		step, _ := workflow.Declaration.Find(runs[i].Key.Step)
		runs[i].from, runs[i].to, runs[i].pictures = workflow.Span(step, view.Plans[generation], runs[i].Key.Index)
	}
	slices.SortStableFunc(runs, func(a, b stepRun) int {
		return cmp.Or(workflow.Declaration.Order(a.Key.Step)-workflow.Declaration.Order(b.Key.Step), a.Key.Index-b.Key.Index)
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
		Worker: shown.worker(r.Worker), Started: api.Some(r.StartedAt), Finished: api.Some(r.FinishedAt),
	}
	if r.Error != nil {
		out.Error = new(shown.reason(string(r.Error.Code) + ": " + r.Error.Detail))
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
			AttemptsMade: r.Attempts, Attempts: []api.Attempt{}, WaitingSince: api.Some(r.since),
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

func attempt(a engine.Attempt, shown disclosed) api.Attempt {
	return api.Attempt{
		Number: a.Number, Worker: shown.worker(a.Worker), QueuedAt: api.Some(a.Queued), StartedAt: a.Started,
		EndedAt: api.Some(a.Ended), Outcome: api.AttemptOutcome(a.Outcome), Error: api.Some(shown.reason(a.Error)),
	}
}

// GetCost implements GET /videos/{id}/cost.
func (s *Server) GetCost(c *gin.Context, _ api.ID) {
	v, now, err := s.videoNow(c)
	reply(c, http.StatusOK, costOf(v.Generation, now.runs, s.Prices), err)
}

func costOf(generation int, runs []stepRun, prices price.Table) api.Cost {
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

// snapshot is what the rows of a video say beyond META.
type snapshot struct {
	etag     string // of the META that was read with them
	progress videostore.Progress
	runs     []stepRun
}

const (
	maxSnapshots = 64
	// snapshotLife is how long a page may be shown the same progress. Whatever
	// changes META, such as the end of the last step, is seen at once.
	snapshotLife = time.Second
)

func newSnapshots(videos *videostore.Store) *recent.Cache[engine.ID, snapshot] {
	return recent.New(maxSnapshots, func(ctx context.Context, id engine.ID) (snapshot, error) {
		view, err := videos.ReadSnapshot(ctx, id)
		if err != nil {
			return snapshot{}, err
		}
		return snapshot{etag: view.ETag, progress: videostore.ProgressOf(view), runs: stepRunsOf(view)}, nil
	})
}

// snapshot reads all rows of a video, or shares what others have just read.
func (s *Server) snapshot(ctx context.Context, rec videostore.Record) (snapshot, error) {
	return s.snapshots.Get(ctx, rec.Subject.ID, func(known snapshot, age time.Duration) bool {
		return known.etag == rec.ETag && age < snapshotLife
	})
}

func (s *Server) videoNow(c *gin.Context) (video.Video, snapshot, error) {
	rec := access.Video(c)
	now, err := s.snapshot(c.Request.Context(), rec)
	return rec.Subject, now, err
}

// disclosed is what a requester is shown of the work on a video: operators the whole of
// every error, others its code, because the rest names hosts and blobs; and those who may
// change the video which workers made it, because their names are those of hosts.
type disclosed struct{ errors, workers bool }

func disclosedTo(c *gin.Context, v video.Video) disclosed {
	caller := access.IdentityOf(c.Request.Context())
	return disclosed{errors: access.May(caller, access.Operate, video.Video{}), workers: access.May(caller, access.Change, v)}
}

// retrying stands for an error that the requester is not shown.
const retrying = "retrying"

// failure is the text of a engine.Failure, which is written for the uploader.
var failure = regexp.MustCompile(`^[a-z]+(_[a-z]+)+: `)

func (d disclosed) reason(text string) string {
	if d.errors || text == "" || failure.MatchString(text) {
		return text
	}
	return retrying
}

// worker is nil where there is none, or the requester is not shown it.
func (d disclosed) worker(name string) *string {
	if !d.workers {
		return nil
	}
	return api.Some(name)
}
