package board

import (
	"time"

	"github.com/cutroom/cutroom/shared/workers"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

// A plot has a point for every sampleEvery, and goes back maxSamples of them.
const (
	sampleEvery = 5 * time.Second
	maxSamples  = 60
)

// sample counts until it is long enough to be a point of the plots.
type sample struct {
	began time.Time
	reads int64            // requests of the board until then
	done  map[string]int64 // by base queue
}

func newSample(now time.Time, reads int64) sample {
	return sample{began: now, reads: reads, done: map[string]int64{}}
}

// take returns the sample when it is due, and begins the next.
func (s *sample) take(now time.Time, reads int64, oldest map[string]float64) (made api.BoardSample, due bool) {
	took := now.Sub(s.began)
	if took < sampleEvery {
		return made, false
	}
	made = api.BoardSample{
		At: now.UTC(), Seconds: took.Seconds(), ReadsPerSecond: float64(reads-s.reads) / took.Seconds(), Queues: map[string]api.BoardCount{},
	}
	for name, seconds := range oldest {
		made.Queues[name] = api.BoardCount{OldestSeconds: seconds}
	}
	for name, n := range s.done {
		made.Queues[name] = api.BoardCount{Done: n, OldestSeconds: oldest[name]}
	}
	*s = newSample(now, reads)
	return made, true
}

// counted is what a worker had done when it was last seen.
type counted struct {
	started time.Time
	done    map[string]int64 // by queue, with lane
}

// count adds to the sample what workers did since they were last seen. What a worker
// did before it was first seen belongs to no sample, unless it has just started.
func (r *reader) count(found []workers.Worker) {
	base := map[string]string{}
	for _, l := range r.queueViews {
		base[l.queue.Name()] = l.queue.Spec().Base()
	}
	now := map[string]counted{}
	for _, w := range found {
		c := counted{started: w.StartedAt, done: map[string]int64{}}
		was, known := r.counts[w.Name]
		if !was.started.Equal(w.StartedAt) {
			was, known = counted{}, false
		}
		for queue, n := range w.Queues {
			c.done[queue] = n.Done
			if name := base[queue]; name != "" && (known || w.StartedAt.After(r.began)) {
				if more := n.Done - was.done[queue]; more > 0 {
					r.sample.done[name] += more
				}
			}
		}
		now[w.Name] = c
	}
	r.counts = now
}
