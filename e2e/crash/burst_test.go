package crash_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// Ten uploads with sound, or 60, arrive while no worker runs. All are accepted; workers
// that come later finish all of them. What is urgent goes before what is not,
// whenever it came, and what is not urgent at all still moves.
//
// Not parallel: it needs the whole machine for a while. The emulator is its own,
// because one that remembers so much answers late.
func TestBurstWithoutWorkers(t *testing.T) {
	burst := 10
	if *thorough {
		burst = 60
	}
	// 30 s is long enough for two busy cores; the reconciler has its usual pace,
	// for every pass reads every video that is under way.
	l := newLaneOn(t, "", 30*time.Second, "CUTROOM_RECONCILE_INTERVAL=10s", "CUTROOM_RECONCILE_GRACE=10s",
		"CUTROOM_JANITOR_INTERVAL=5m")
	type kind struct {
		clip     *clip
		priority engine.Priority
		count    int
	}
	low, normal := kind{middling, engine.Low, 2}, kind{lengthy, engine.Normal, 4}
	start := time.Now()
	var ids []engine.ID
	by := map[engine.Priority][]engine.ID{}
	for _, k := range []kind{low, normal, {tiny, engine.Normal, burst - low.count - normal.count}} {
		uploaded := l.uploadMany(k.clip, k.priority, k.count)
		ids = append(ids, uploaded...)
		if k.clip != tiny {
			by[k.priority] = uploaded
		}
	}
	accepted := time.Since(start)
	if n := l.length(workflow.Probe) + l.length(workflow.Audio); n != int64(burst) { // one channel sends most of them
		t.Fatalf("%d messages wait for a probe, want %d", n, burst)
	}

	start = time.Now()
	for _, name := range []string{"first", "second"} {
		l.worker(name, "WORKERROLE_POOLS=light=4,heavy=2")
	}
	l.await(2*time.Minute, "probed, some of them", func() bool { return l.count("State eq 'uploaded'") < burst-3 })
	by[engine.High] = l.uploadMany(middling, engine.High, 1)
	ids = append(ids, by[engine.High]...)
	left := len(ids)
	l.await(6*time.Minute, "all ready", func() bool {
		if failed := l.count("State eq 'failed'"); failed > 0 {
			t.Fatalf("%d videos failed", failed)
		}
		left = l.count("State ne 'ready'")
		return left == 0
	})
	t.Logf("%d uploads accepted in %.1f s; all of them and one more ready %.1f s after the workers came",
		burst, accepted.Seconds(), time.Since(start).Seconds())

	ready := func(ids []engine.ID) (times []time.Time) {
		for _, id := range ids {
			times = append(times, l.view(id).Subject.ReadyAt)
		}
		return times
	}
	urgent := slices.MaxFunc(ready(by[engine.High]), time.Time.Compare)
	overtaken := 0
	for _, at := range ready(by[engine.Normal]) {
		if at.After(urgent) {
			overtaken++
		}
	}
	t.Logf("the urgent one, uploaded last, overtook %d of %d that were uploaded before it", overtaken, normal.count)
	if overtaken <= normal.count/2 {
		t.Errorf("the urgent one overtook %d of %d, want most", overtaken, normal.count)
	}
	lastNormal := slices.MaxFunc(l.chunkTimes(by[engine.Normal]), time.Time.Compare)
	slow := l.chunkTimes(by[engine.Low])
	moved := 0
	for _, at := range slow {
		if at.Before(lastNormal) {
			moved++
		}
	}
	t.Logf("%d of %d chunks that are not urgent at all were done before the last ordinary one", moved, len(slow))
	if moved == 0 {
		t.Error("low priority did not move while there was other work")
	}

	for _, id := range ids {
		view := l.view(id)
		var frames int64
		p, err := videostore.Presentation(view, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range p.Chunks {
			frames += c.Frames
		}
		if want := view.Plans[1].Frames; frames != want || frames == 0 {
			t.Errorf("video %s has %d frames, want %d", id, frames, want)
		}
	}
	l.nothingLeft()
}

func (l *lane) uploadMany(c *clip, priority engine.Priority, count int) []engine.ID {
	l.t.Helper()
	ids, errs := make([]engine.ID, count), make([]error, count)
	next := make(chan int, count)
	for i := range count {
		next <- i
	}
	close(next)
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for i := range next {
				ids[i], errs[i] = l.upload(c, "Burst "+c.name, map[string]any{"priority": priority})
			}
		})
	}
	clients.Wait()
	if err := errors.Join(errs...); err != nil {
		l.t.Fatal(err)
	}
	return ids
}

// count returns how many videos there are that the filter of table "videos" lets
// through.
func (l *lane) count(filter string) (n int) {
	l.t.Helper()
	rows := tablestore.New(l.account, workflow.VideosTable).Query(l.t.Context(), tablestore.Query{
		Filter: "RowKey eq 'META' and " + filter, Select: []string{"PartitionKey", "RowKey"}, Class: tablestore.Scan,
	})
	for _, err := range rows {
		if err != nil {
			l.t.Fatal(err)
		}
		n++
	}
	return n
}

// urgentChunks is how many chunks of every video go before the bulk.
const urgentChunks = 3

// chunkTimes is when those chunks were done that are not among a video's first,
// urgent ones.
func (l *lane) chunkTimes(ids []engine.ID) (times []time.Time) {
	l.t.Helper()
	for _, id := range ids {
		view := l.view(id)
		for _, s := range view.Runs {
			if s.Key.Step == workflow.StepEncode && s.Key.Index >= urgentChunks {
				times = append(times, s.FinishedAt)
			}
		}
	}
	return times
}
