package board

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/workers"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/scaling"
)

// show makes the state of what was read. It is never changed once it is shown.
func (r *reader) show(now time.Time) error {
	s := api.BoardEvent{At: now.UTC(), Poison: r.poison}
	stale := errors.Join(slices.Collect(maps.Values(r.unanswered))...)
	if stale != nil {
		s.Trouble = "Storage does not answer: what is shown may be old."
	}
	later := r.latest()
	s.Workers = api.Each(r.seen, func(w workers.Worker) api.BoardWorker { return workerOf(w, now, later) })
	s.Queues = r.queues(s.Workers, later)
	s.Videos = r.videos(s)
	s.Scale = r.decide(now, s.Queues)
	r.sample(now, s.Scale.Queues)
	s.Samples = r.samples
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode the board: %w", err)
	}
	r.shown = &State{Event: s, JSON: text, read: now, stale: stale}
	return nil
}

// latest helps to show each message once, though workers' rows and queues are not read in the
// same moment. The place with the most deliveries is the newest. A message that is visible
// again counts half a delivery more than one that a worker holds, so the values are doubled.
func (r *reader) latest() map[string]int64 {
	deliveries := map[string]int64{}
	for _, w := range r.seen {
		for _, t := range w.Busy {
			deliveries[t.MessageID] = max(deliveries[t.MessageID], 2*t.DequeueCount)
		}
	}
	for _, l := range r.queueViews {
		for _, m := range l.messages { // visible after a delivery is later than that delivery
			deliveries[m.Id] = max(deliveries[m.Id], 2*m.DequeueCount+1)
		}
	}
	return deliveries
}

func (r *reader) queues(busy []api.BoardWorker, later map[string]int64) []api.BoardQueue {
	held := map[string]int64{}
	for _, w := range busy {
		for _, t := range w.Tasks {
			held[t.Queue]++
		}
	}
	queues := []api.BoardQueue{}
	for _, l := range r.queueViews {
		spec := l.queue.Spec()
		if spec.Lane() == 0 { // the others follow it
			queues = append(queues, queueOf(l.queue))
		}
		shown := &queues[len(queues)-1]
		shown.Lanes = append(shown.Lanes, l.lane(held[spec.Name], later))
	}
	return queues
}

func (r *reader) decide(now time.Time, queues []api.BoardQueue) api.Scale {
	seen := scaling.Observation{At: now}
	seen.Workers, seen.Slots = scaling.Fleet(now, r.seen)
	for _, shown := range queues {
		spec := r.board.parts.Queues.Queue(shown.Name).Spec()
		q := api.ScaleQueue{Name: shown.Name, Pool: spec.Pool, Urgent: spec.Urgent, Paused: shown.Paused, SecondsEach: scaling.SecondsEach(spec, r.seen)}
		for _, l := range shown.Lanes {
			q.Visible += l.Visible
			q.Hidden += l.Length - l.Visible
			for _, m := range l.Messages {
				q.OldestSeconds = max(q.OldestSeconds, now.Sub(m.InsertedAt).Seconds())
			}
		}
		seen.Queues = append(seen.Queues, q)
	}
	return r.board.scale.Decide(seen)
}

func queueOf(q *azq.Queue) api.BoardQueue {
	policy := q.Policy()
	return api.BoardQueue{
		Name: q.Name(), Pool: q.Spec().Pool, Paused: policy.Paused, VisibilityChangedAt: policy.Changed,
		VisibilitySeconds: q.Visibility().Seconds(), DeclaredVisibilitySeconds: q.Spec().Visibility.Seconds(),
	}
}

// lane is what is shown of a storage queue, whose messages held are with workers.
func (l *queueView) lane(held int64, later map[string]int64) api.BoardLane {
	lane := api.BoardLane{Name: l.queue.Name(), Length: l.length, Messages: []api.BoardMessage{}}
	for _, m := range l.messages {
		if 2*m.DequeueCount+1 >= later[m.Id] {
			lane.Messages = append(lane.Messages, m)
		}
	}
	lane.Visible = int64(len(lane.Messages))
	if len(l.messages) == maxMessages {
		lane.Visible = max(lane.Visible, l.length-held)
	}
	lane.Length = max(lane.Length, lane.Visible)
	return lane
}

func messageOf(p azq.Peeked) api.BoardMessage {
	m := api.BoardMessage{Id: p.MessageID, DequeueCount: p.DequeueCount, InsertedAt: p.Inserted.UTC()}
	if p.Err != nil {
		m.Error = p.Err.Error()
	}
	if p.Item.ID == "" {
		return m
	}
	m.Item, m.Step, m.Video, m.Failures = p.Item.ID, p.Item.Kind, p.Item.Subject, p.Item.Failures
	m.Row, m.Index = rowOf(p.Item.ID)
	return m
}

// rowOf returns the key and the index of an item's row; nothing for a step without rows.
func rowOf(item string) (row string, index *int) {
	key, err := workflow.Declaration.ParseItemID(item)
	if err != nil || !workflow.Declaration.StepOf(key).HasRows() {
		return "", nil
	}
	return key.RowKey(), &key.Index
}

func workerOf(w workers.Worker, now time.Time, later map[string]int64) api.BoardWorker {
	silent := w.Overdue(now) > silentAfter
	out := api.BoardWorker{
		Name: w.Name, StartedAt: w.StartedAt, SeenAt: w.SeenAt, Silent: silent,
		Draining: w.Draining, Leader: w.Leader && !silent, Pools: w.Pools, Done: w.Done, Failed: w.Failed, StaleLeases: w.Stale,
		Host: w.Host, Pid: w.PID, Trouble: w.Trouble, Tasks: []api.BoardTask{}, Breakers: []api.BoardBreaker{},
	}
	if out.Pools == nil {
		out.Pools = map[string]int{}
	}
	for _, b := range w.Breakers {
		out.Breakers = append(out.Breakers, api.BoardBreaker{Dependency: b.Dependency, State: b.State, Since: b.Since, Reason: b.Reason})
	}
	for _, t := range w.Busy {
		over := out.Silent && now.After(t.Deadline) // the message came back, or was settled
		if !over && 2*t.DequeueCount >= later[t.MessageID] {
			out.Tasks = append(out.Tasks, taskOf(t))
		}
	}
	return out
}

func taskOf(t azq.Running) api.BoardTask {
	out := api.BoardTask{
		Id: t.MessageID, Queue: t.Queue, Step: t.Kind, Video: t.Subject, DequeueCount: t.DequeueCount, Since: t.Received,
		LeaseEndsAt: t.Deadline, VisibilitySeconds: t.Visibility.Seconds(), Renewals: t.Renewals, Item: t.Item, InsertedAt: t.Inserted,
	}
	out.Row, out.Index = rowOf(t.Item)
	return out
}

// videos returns what the videos on the board are called, as far as that is known,
// and notes those of which it is to be read.
func (r *reader) videos(s api.BoardEvent) []api.BoardVideo {
	known := []api.BoardVideo{}
	r.missedTitles = nil
	for _, id := range videosOf(s) {
		if title := r.board.titles.Get(id); title != nil {
			known = append(known, api.BoardVideo{Id: string(id), Title: title.Value()})
		} else if _, err := engine.ParseID(string(id)); err == nil {
			r.missedTitles = append(r.missedTitles, id)
		}
	}
	return known
}

func videosOf(s api.BoardEvent) []engine.ID {
	seen := map[engine.ID]bool{}
	for _, q := range s.Queues {
		for _, l := range q.Lanes {
			for _, m := range l.Messages {
				seen[engine.ID(m.Video)] = true
			}
		}
	}
	for _, w := range s.Workers {
		for _, t := range w.Tasks {
			seen[engine.ID(t.Video)] = true
		}
	}
	for _, p := range s.Poison {
		seen[engine.ID(p.Subject)] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// A plot has a point for every sampleEvery, and goes back maxSamples of them.
const (
	sampleEvery = 5 * time.Second
	maxSamples  = 60
)

func (r *reader) sample(now time.Time, queues []api.ScaleQueue) {
	took := now.Sub(r.sampledAt)
	if took < sampleEvery {
		return
	}
	if !r.sampledAt.IsZero() {
		made := api.BoardSample{At: now.UTC(), Seconds: took.Seconds(), Queues: map[string]api.BoardCount{}}
		made.ReadsPerSecond = float64(r.board.requests.Load()-r.sampled) / made.Seconds
		for _, q := range queues {
			if count := (api.BoardCount{Done: r.done(q.Name), OldestSeconds: q.OldestSeconds}); count != (api.BoardCount{}) {
				made.Queues[q.Name] = count
			}
		}
		r.samples = append(r.samples, made)
		r.samples = r.samples[max(0, len(r.samples)-maxSamples):]
	}
	r.sampledAt, r.sampled, r.counted = now, r.board.requests.Load(), r.seen
}

// done is how many items of a queue workers did since the last point. What a worker did
// before it was first counted belongs to no point, unless it has started since.
func (r *reader) done(queue string) (n int64) {
	for _, w := range r.seen {
		var was workers.Worker
		same := func(old workers.Worker) bool { return old.Name == w.Name && old.StartedAt.Equal(w.StartedAt) }
		if i := slices.IndexFunc(r.counted, same); i >= 0 {
			was = r.counted[i]
		} else if w.StartedAt.Before(r.sampledAt) {
			continue
		}
		for lane := range azq.DefaultLanes {
			name := azq.LaneName(queue, lane)
			n += w.Queues[name].Done - was.Queues[name].Done
		}
	}
	return n
}
