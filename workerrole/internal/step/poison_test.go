package step_test

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
	"github.com/cutroom/cutroom/shared/provision"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// trouble is a transport that does something before every request.
type trouble struct {
	next *http.Client
	meet func(*http.Request) error
}

func (s trouble) Do(r *http.Request) (*http.Response, error) {
	if err := s.meet(r); err != nil {
		return nil, err
	}
	return s.next.Do(r)
}

// consume works on index and purge items of a fresh account until the test ends.
// Requests to the indexes meet trouble; one failure makes an item poison.
func consume(t *testing.T, stall time.Duration, retry azstore.Retry, meet func(*http.Request) error) (*azstore.Account, *azq.Client, azqtest.Worker) {
	t.Helper()
	plain := azuritetest.Account(t)
	var specs []azq.Spec
	for _, spec := range workflow.Specs {
		if spec.Name == workflow.Index || spec.Name == workflow.Purge {
			spec.MaxFailures = 1
			specs = append(specs, spec)
		}
	}
	queues := azq.Open(plain, azq.Options{Queues: specs})
	if err := provision.Ensure(t.Context(), plain, queues); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	met := azuritetest.AccountWith(t, func(cfg *azstore.Config) {
		cfg.Prefix, cfg.Transport, cfg.Retry = plain.Prefix(), trouble{&http.Client{Transport: transport}, meet}, retry
	})
	w := newWorker(met, &enginetest.Mailbox{})
	w.index.Videos = videostore.New(plain, queues)
	w.purge.Videos = w.index.Videos
	handlers := map[string]azq.Handler{workflow.StepIndex: w.runner(w.index), workflow.StepPurge: w.runner(w.purge)}
	return plain, queues, azqtest.Start(t, queues, handlers, func(o *azq.Options) { o.StallAfter = stall })
}

// Throttling makes an indexing run long. It moves all the same, and is no failure.
func TestThrottledIndexingIsNotStalled(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	const stall = 6 * time.Second // longer than one answer of an emulator on a busy machine
	var requests atomic.Int32
	plain, queues, c := consume(t, stall, azstore.Retry{}, func(r *http.Request) error {
		requests.Add(1)
		select {
		case <-r.Context().Done():
		case <-time.After(stall / 3):
		}
		return nil
	})
	videos := videostore.New(plain, queues)
	v := video.Video{
		Meta:  engine.Meta{ID: engine.NewID(), State: engine.Ready, Playable: true, CreatedAt: time.Now()},
		Title: "One two three four five", Visibility: video.Public,
	}
	if _, err := videos.Create(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	if _, err := videos.Change(t.Context(), v.ID, "", func(*video.Video) ([]engine.OutboxMessage, error) {
		return []engine.OutboxMessage{workflow.Declaration.FollowMessage()}, nil
	}); err != nil {
		t.Fatal(err)
	}
	azuritetest.Eventually(t, time.Minute, func() error {
		s := azqtest.Counts(c.Stats(), workflow.Index)
		if s.Stalled+s.Poisoned > 0 {
			t.Fatalf("the run is taken for one that hangs: %+v", s)
		}
		if s.Completed == 0 {
			return errors.New("not indexed")
		}
		return nil
	})
	if n := requests.Load(); n < 5 {
		t.Errorf("%d requests take no longer than %v: the test shows nothing", n, stall)
	}
}

// A burial of an item without a row of its own is written down in the video's mark.
func TestBurialsAreNoted(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	// A request that the service refuses: an outage would not count as a failure.
	plain, queues, c := consume(t, time.Minute, azstore.Retry{Strategy: azstore.NoRetry}, func(r *http.Request) error {
		r.Header.Set("x-ms-version", "no version")
		return nil
	})
	videos := videostore.New(plain, queues)
	for _, e := range []struct {
		step, queue string
		end         func(engine.ID) (videostore.Record, error)
	}{
		{
			workflow.StepIndex, workflow.Index,
			func(id engine.ID) (videostore.Record, error) { return videos.Cancel(t.Context(), id) },
		},
		{
			workflow.StepPurge, workflow.Purge,
			func(id engine.ID) (videostore.Record, error) { return videos.Delete(t.Context(), id, "") },
		},
	} {
		v := video.Video{Meta: engine.Meta{ID: engine.NewID(), State: engine.AwaitingUpload}}
		if _, err := videos.Create(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		rec, err := e.end(v.ID)
		if err != nil {
			t.Fatal(err)
		}
		c.WaitCounts(t, e.queue, func(s azq.QueueStats) bool { return s.Poisoned == 1 })
		noted := false
		for mark, err := range videos.Inflight(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			noted = noted || mark.ID == v.ID && mark.GaveUp(e.step, rec.Subject.Meta)
		}
		if !noted {
			t.Errorf("%s: the mark does not know of the burial", e.step)
		}
	}
}
