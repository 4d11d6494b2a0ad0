package main

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

func (f *fixture) journey() api.Journey {
	f.t.Helper()
	return decode[api.Journey](f.t, f.call(http.MethodGet, "/videos/"+string(f.id)+"/journey", nil), http.StatusOK)
}

// of finds a run in a journey.
func of(t *testing.T, j api.Journey, step string, index int) api.JourneyItem {
	t.Helper()
	for _, item := range j.Items {
		if item.Step == step && item.Index == index {
			return item
		}
	}
	t.Fatalf("the journey has no %s %d: %+v", step, index, j.Items)
	return api.JourneyItem{}
}

// A chunk whose first worker is killed and whose second fails: the journey has every
// attempt and every wait, on one axis.
func TestJourneyHasEveryAttemptAndWait(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	k := engine.Key{ID: f.id, Generation: 1, Step: workflow.StepEncode}
	claim := func(worker string) *videostore.Claim {
		t.Helper()
		c, err := f.videos.Claim(t.Context(), k, "message", worker, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	claim("killed")
	if err := claim("unlucky").GiveBack(t.Context(), engine.OutcomeRetry, errors.New("<b>no luck</b>")); err != nil {
		t.Fatal(err)
	}
	claim("lucky")

	j := f.journey()
	item := of(t, j, workflow.StepEncode, 0)
	if item.State != api.RunRunning || item.AttemptsMade != 3 || len(item.Attempts) != 3 {
		t.Fatalf("%+v: want three attempts, the last of which runs", item)
	}
	var outcomes []api.AttemptOutcome
	for i, a := range item.Attempts {
		outcomes = append(outcomes, a.Outcome)
		if a.Number != i+1 || a.StartedAt.Before(j.From) || a.StartedAt.After(j.To) {
			t.Errorf("attempt %+v: want number %d, on the axis from %v to %v", a, i+1, j.From, j.To)
		}
	}
	if diff := cmp.Diff([]api.AttemptOutcome{api.AttemptLost, api.AttemptRetry, api.AttemptRunning}, outcomes); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	lost, failed, running := item.Attempts[0], item.Attempts[1], item.Attempts[2]
	if lost.EndedAt == nil || lost.EndedAt.After(failed.StartedAt) || *lost.Worker != "killed" {
		t.Errorf("the lost attempt %+v must end, at the latest, where the next begins", lost)
	}
	if failed.Error == nil || *failed.Error != "<b>no luck</b>" || running.EndedAt != nil {
		t.Errorf("failed %+v, running %+v", failed, running)
	}
	if !j.To.Equal(j.Now) {
		t.Errorf("something runs: the axis must end now, %v, and ends at %v", j.Now, j.To)
	}
	if other := of(t, j, workflow.StepEncode, 1); other.State != api.RunQueued || other.WaitingSince == nil || len(other.Attempts) != 0 {
		t.Errorf("the chunk that was not claimed: %+v, want queued since the plan", other)
	}
	if probe := of(t, j, workflow.StepProbe, 0); probe.State != api.RunDone || probe.QueuedAt == nil || probe.QueuedAt.Before(j.From) {
		t.Errorf("probe: %+v", probe)
	}
}

func TestJourneyBeginsWithTheUpload(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	v := s.create(map[string]any{})
	j := decode[api.Journey](t, s.call(http.MethodGet, "/videos/"+v.Id+"/journey", nil), http.StatusOK)
	if len(j.Items) != 0 || !j.From.Equal(j.To) || !j.From.Equal(v.CreatedAt) {
		t.Errorf("%+v: want nothing, when the video was announced", j)
	}
	cost := decode[api.Cost](t, s.call(http.MethodGet, "/videos/"+v.Id+"/cost", nil), http.StatusOK)
	if cost.Dollars.Total != 0 || len(cost.Requests) != 0 {
		t.Errorf("%+v: want nothing", cost)
	}
	s.call(http.MethodPut, "/videos/"+v.Id+"/content", movie(100)).want(t, http.StatusAccepted, "")
	j = decode[api.Journey](t, s.call(http.MethodGet, "/videos/"+v.Id+"/journey", nil), http.StatusOK)
	if probe := of(t, j, workflow.StepProbe, 0); probe.State != api.RunQueued || probe.WaitingSince == nil || !probe.WaitingSince.Equal(j.From) || len(j.Items) != 1 {
		t.Errorf("%+v: want one step, which waits since the upload", j)
	}
	for _, what := range []string{"journey", "cost"} {
		s.call(http.MethodGet, "/videos/"+string(engine.NewID())+"/"+what, nil).want(t, http.StatusNotFound, "not_found")
		s.call(http.MethodGet, "/videos/nonsense/"+what, nil).want(t, http.StatusBadRequest, "invalid_id")
	}
}

// Costs are what attempts counted, by the prices of the setting. A killed worker's count
// is lost with it, which is said.
func TestCostIsWhatWasCounted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, map[string]string{"WEBROLE_PRICES": "blob.read=100,table.write=0,cpu=36,gb.tostorage=1000"})
	k := engine.Key{ID: f.id, Generation: 1, Step: workflow.StepEncode}
	claim := func(worker string) *videostore.Claim {
		t.Helper()
		c, err := f.videos.Claim(t.Context(), k, "message", worker, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		c.Usage = func() engine.Usage {
			return engine.Usage{Requests: map[azstore.RequestKind]int{"blob.read": 50}, Sent: 2e6, Received: 7, CPU: 100}
		}
		return c
	}
	claim("killed")
	if err := claim("unlucky").GiveBack(t.Context(), engine.OutcomeRetry, errors.New("no luck")); err != nil {
		t.Fatal(err)
	}
	if err := claim("lucky").Commit(t.Context(), videostore.Commit{Output: video.ChunkOutput{Frames: 200}}); err != nil {
		t.Fatal(err)
	}
	k.Index = 1
	claim("running")

	cost := decode[api.Cost](t, f.call(http.MethodGet, "/videos/"+string(f.id)+"/cost", nil), http.StatusOK)
	want := api.Cost{
		Generation: 1,
		Requests: []api.RequestCost{
			{Kind: "blob.read", Count: 100, DollarsPer10000: 100, Dollars: 1},
			{Kind: "table.write", Count: 2},
		},
		BytesToStorage: 4e6, BytesFromStorage: 14, CpuSeconds: 200,
		Dollars: api.Dollars{Requests: 1, Bytes: 4, Cpu: 2, Total: 7},
		Steps: []api.StepCost{
			{Step: workflow.StepProbe}, // by hand, without a meter
			{Step: workflow.StepEncode, Attempts: 2, Requests: 102, CpuSeconds: 200, Dollars: 7},
			{Step: workflow.StepAudio},
		},
		AttemptsCounted: 2, AttemptsNotCounted: 2, AttemptsRunning: 1,
	}
	if diff := cmp.Diff(want, cost); diff != "" {
		t.Errorf("cost (-want +got):\n%s", diff)
	}
}

func init() {
	parts = append(parts, part{
		routes: `seers GET /api/v1/videos/:id/journey
owners GET /api/v1/videos/:id/cost
`,
		visits: []visit{
			{"getJourney", getUnseen("/videos/{id}/journey")},
			{"getCost", getUnseen("/videos/{id}/cost")},
		},
		lists: []list{
			{
				"getJourney", "/videos/{id}/journey",
				[]damage{{workflow.VideosTable, "{id} STEP:00001:encode:00001", 1}, {workflow.VideosTable, "{id} PLAN:00001", changes}},
			},
			{"getCost", "/videos/{id}/cost", []damage{{workflow.VideosTable, "{id} STEP:00001:probe:00000", changes}}},
		},
	})
}
