package board

import (
	"slices"
	"time"

	"github.com/cutroom/cutroom/shared/workers"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

// A plot has a point for every sampleEvery, and goes back maxSamples of them.
const (
	sampleEvery = 5 * time.Second
	maxSamples  = 60
)

func (r *reader) beginSample(now time.Time) {
	r.sampledAt, r.sampled, r.done = now, r.board.Requests(), map[string]int64{}
}

// sample adds a point to the plots when it is due.
func (r *reader) sample(now time.Time, oldest map[string]float64) {
	took := now.Sub(r.sampledAt).Seconds()
	if took < sampleEvery.Seconds() {
		return
	}
	made := api.BoardSample{
		At: now.UTC(), Seconds: took, ReadsPerSecond: float64(r.board.Requests()-r.sampled) / took, Queues: map[string]api.BoardCount{},
	}
	for _, l := range r.queueViews {
		name := l.queue.Spec().Base()
		if count := (api.BoardCount{Done: r.done[name], OldestSeconds: oldest[name]}); count != (api.BoardCount{}) {
			made.Queues[name] = count
		}
	}
	r.samples = append(r.samples, made)
	r.samples = r.samples[max(0, len(r.samples)-maxSamples):]
	r.beginSample(now)
}

// count adds to the sample what workers did since they were last seen. What a worker
// did before it was first seen belongs to no sample, unless it has just started.
func (r *reader) count(found []workers.Worker) {
	for _, w := range found {
		var was workers.Worker
		same := func(old workers.Worker) bool { return old.Name == w.Name && old.StartedAt.Equal(w.StartedAt) }
		if i := slices.IndexFunc(r.seen, same); i >= 0 {
			was = r.seen[i]
		} else if !w.StartedAt.After(r.began) {
			continue
		}
		for _, l := range r.queueViews {
			more := w.Queues[l.queue.Name()].Done - was.Queues[l.queue.Name()].Done
			r.done[l.queue.Spec().Base()] += max(0, more)
		}
	}
}
