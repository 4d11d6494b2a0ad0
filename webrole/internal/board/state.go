package board

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workers"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/shared/workqueue"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/scaling"
)

// state is what the board shows at one moment. It is never changed once it is shown.
type state struct {
	at      time.Time
	queues  []api.BoardQueue
	workers []api.BoardWorker
	videos  []api.BoardVideo
	poison  []api.Poison
	samples []api.BoardSample
	scale   *api.BoardScale
	trouble string
}

// everything is the state as a snapshot.
func (s state) everything() api.BoardEvent {
	return api.BoardEvent{
		At: s.at, Queues: &s.queues, Workers: &s.workers, Videos: &s.videos, Poison: &s.poison,
		Samples: &s.samples, Scale: s.scale, Trouble: &s.trouble,
	}
}

// since is what changed since an earlier state, false when nothing did.
func (s state) since(old state) (change api.BoardEvent, changed bool) {
	change.At = s.at
	if queues := changedQueues(s.queues, old.queues); len(queues) > 0 {
		change.Queues, changed = &queues, true
	}
	if fresh := others(s.workers, old.workers, func(w api.BoardWorker) string { return w.Name }); len(fresh) > 0 {
		change.Workers, changed = &fresh, true
	}
	var gone []string
	for _, w := range old.workers {
		if !slices.ContainsFunc(s.workers, func(now api.BoardWorker) bool { return now.Name == w.Name }) {
			gone = append(gone, w.Name)
		}
	}
	if gone != nil {
		change.Gone, changed = &gone, true
	}
	if fresh := others(s.videos, old.videos, func(v api.BoardVideo) string { return v.Id }); len(fresh) > 0 {
		change.Videos, changed = &fresh, true
	}
	if !reflect.DeepEqual(s.poison, old.poison) {
		change.Poison, changed = &s.poison, true
	}
	if n := len(s.samples); n > 0 && (len(old.samples) == 0 || !s.samples[n-1].At.Equal(old.samples[len(old.samples)-1].At)) {
		newest := s.samples[n-1:]
		change.Samples, changed = &newest, true
	}
	if !reflect.DeepEqual(s.scale, old.scale) {
		change.Scale, changed = s.scale, true
	}
	if s.trouble != old.trouble {
		change.Trouble, changed = &s.trouble, true
	}
	return change, changed
}

// others returns the items of now that before lacks or has otherwise.
func others[T any](now, before []T, key func(T) string) (fresh []T) {
	known := map[string]T{}
	for _, item := range before {
		known[key(item)] = item
	}
	for _, item := range now {
		if was, found := known[key(item)]; !found || !reflect.DeepEqual(item, was) {
			fresh = append(fresh, item)
		}
	}
	return fresh
}

// changedQueues returns the queues that changed, with those of their lanes that did.
func changedQueues(now, before []api.BoardQueue) []api.BoardQueue {
	fresh := others(now, before, func(q api.BoardQueue) string { return q.Name })
	for i, q := range fresh {
		for _, was := range before {
			if was.Name == q.Name {
				fresh[i].Lanes = others(q.Lanes, was.Lanes, func(l api.BoardLane) string { return l.Name })
			}
		}
		if fresh[i].Lanes == nil {
			fresh[i].Lanes = []api.BoardLane{}
		}
	}
	return fresh
}

// observe makes the state of what was read.
func (r *reader) observe(now time.Time) state {
	s := state{at: now.UTC(), poison: r.poison, trouble: r.trouble, samples: r.shown.samples, scale: r.shown.scale}
	if s.poison == nil {
		s.poison = []api.Poison{}
	}
	later := r.latest()
	s.workers = []api.BoardWorker{}
	for _, w := range r.seen {
		s.workers = append(s.workers, workerOf(w, now, later))
	}
	oldest := r.queues(&s, later)
	s.videos = r.videos(now, s)
	if now.Sub(r.scaledAt) >= scaleEvery {
		r.scaledAt, s.scale = now, r.scale(now, s.queues)
	}
	if s.samples == nil {
		s.samples = []api.BoardSample{}
	}
	if made, due := r.sample.take(now, r.board.meter.total(), oldest); due {
		kept := s.samples[max(0, len(s.samples)-maxSamples+1):]
		s.samples = append(slices.Clone(kept), made)
	}
	return s
}

// latest helps to show each message once. Workers' rows and queues are not read in the
// same moment, so a message may be seen in both. The place with the most deliveries is
// the newest. A message that is visible again counts half a delivery more than one that
// a worker holds, so the values are doubled.
func (r *reader) latest() map[string]int64 {
	deliveries := map[string]int64{}
	for _, w := range r.seen {
		for _, t := range w.Busy {
			deliveries[t.MessageID] = max(deliveries[t.MessageID], 2*t.Dequeues)
		}
	}
	for _, l := range r.lines {
		for _, m := range l.messages { // visible after a delivery is later than that delivery
			deliveries[m.Id] = max(deliveries[m.Id], 2*m.DequeueCount+1)
		}
	}
	return deliveries
}

// queues fills in the queues, and returns the age of each one's oldest visible message.
func (r *reader) queues(s *state, later map[string]int64) (oldest map[string]float64) {
	held := map[string]int64{}
	for _, w := range s.workers {
		for _, t := range w.Tasks {
			held[t.Queue]++
		}
	}
	oldest = map[string]float64{}
	s.queues = []api.BoardQueue{}
	at := map[string]int{} // by base name
	for _, l := range r.lines {
		spec := l.queue.Spec()
		i, found := at[spec.Base()]
		if !found {
			i = len(s.queues)
			at[spec.Base()] = i
			s.queues = append(s.queues, queueOf(l.queue))
		}
		lane := l.lane(held[spec.Name], later)
		s.queues[i].Lanes = append(s.queues[i].Lanes, lane)
		if len(lane.Messages) > 0 {
			oldest[spec.Base()] = max(oldest[spec.Base()], s.at.Sub(lane.Messages[0].InsertedAt).Seconds())
		}
	}
	return oldest
}

// scale asks how many workers the queues want, by what is shown of them.
func (r *reader) scale(now time.Time, queues []api.BoardQueue) *api.BoardScale {
	var lanes []scaling.Lane
	for _, q := range queues {
		for _, l := range q.Lanes {
			lane := scaling.Lane{Name: l.Name, Length: l.Length, Visible: l.Visible}
			for _, m := range l.Messages {
				if lane.Oldest.IsZero() || m.InsertedAt.Before(lane.Oldest) {
					lane.Oldest = m.InsertedAt
				}
			}
			lanes = append(lanes, lane)
		}
	}
	source := r.board.parts.Scale
	d := source.Decide(now, lanes, r.seen)
	return &api.BoardScale{
		Wanted: d.Wanted, Now: d.Now, Workers: d.Seen.Workers, Why: d.Why,
		Floor: source.Settings().Floor, Ceiling: source.Settings().Ceiling,
	}
}

func queueOf(q *workqueue.Queue) api.BoardQueue {
	policy := q.Policy()
	out := api.BoardQueue{
		Name: q.Name(), Pool: q.Spec().Pool, Paused: policy.Paused,
		VisibilitySeconds: q.Visibility().Seconds(), DeclaredVisibilitySeconds: q.Spec().Visibility.Seconds(),
	}
	if !policy.Changed.IsZero() {
		out.VisibilityChangedAt = &policy.Changed
	}
	return out
}

// lane is what is shown of a storage queue, whose messages held are with workers.
func (l *line) lane(held int64, later map[string]int64) api.BoardLane {
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

func messageOf(p workqueue.Peeked) api.BoardMessage {
	m := api.BoardMessage{Id: p.MessageID, DequeueCount: p.DequeueCount, InsertedAt: p.Inserted.UTC()}
	if p.Err != nil {
		m.Error = ptr(p.Err.Error())
	}
	if p.Item.ID == "" {
		return m
	}
	m.Item, m.Step, m.Video, m.Failures = ptr(p.Item.ID), ptr(p.Item.Step), ptr(p.Item.Subject), ptr(p.Item.Failures)
	if key, err := workflow.KeyOf(p.Item); err == nil {
		m.Row, m.Index = rowOf(key)
	}
	return m
}

// rowOf returns the key and the index of a run's row; nil for a step without rows.
func rowOf(key workflow.Key) (row *string, index *int) {
	if !key.Declared().HasRows() {
		return nil, nil
	}
	return ptr(key.RowKey()), ptr(key.Index)
}

func workerOf(w workers.Worker, now time.Time, later map[string]int64) api.BoardWorker {
	out := api.BoardWorker{
		Name: w.Name, StartedAt: w.StartedAt, SeenAt: w.SeenAt, Silent: now.Sub(w.SeenAt) > silentAfter,
		Draining: w.Draining, Leader: w.Leader, Pools: w.Pools, Done: w.Done, Failed: w.Failed, StaleLeases: w.Stale,
		Tasks: []api.BoardTask{}, Breakers: []api.BoardBreaker{},
	}
	if out.Pools == nil {
		out.Pools = map[string]int{}
	}
	if w.Host != "" {
		out.Host, out.Pid = &w.Host, &w.PID
	}
	if w.Trouble != "" {
		out.Trouble = &w.Trouble
	}
	for _, b := range w.Breakers {
		out.Breakers = append(out.Breakers, api.BoardBreaker{Dependency: b.Dependency, State: b.State, Since: b.Since, Reason: b.Reason})
	}
	for _, t := range w.Busy {
		over := out.Silent && now.After(t.Deadline) // the message came back, or was settled
		if !over && 2*t.Dequeues >= later[t.MessageID] {
			out.Tasks = append(out.Tasks, taskOf(w.Name, t))
		}
	}
	return out
}

func taskOf(worker string, t workers.Task) api.BoardTask {
	// A worker of an older release does not tell the message.
	id := cmp.Or(t.MessageID, worker+" "+t.Queue+" "+t.Since.Format(time.RFC3339Nano))
	out := api.BoardTask{
		Id: id, Queue: t.Queue, Step: t.Step, Video: t.Video, DequeueCount: t.Dequeues, Since: t.Since,
		LeaseEndsAt: t.Deadline, VisibilitySeconds: t.Visibility, Renewals: t.Renewals,
	}
	if t.Item != "" {
		out.Item = &t.Item
	}
	if !t.Inserted.IsZero() {
		out.InsertedAt = &t.Inserted
	}
	if key, err := workflow.ParseItemID(t.Item); err == nil {
		out.Row, out.Index = rowOf(key)
	}
	return out
}

// PoisonOf is a poisoned item as the API shows it.
func PoisonOf(p workqueue.Poisoned) api.Poison {
	item := api.Poison{Id: p.ID, Queue: p.Queue, Reason: p.Reason, Failures: ptr(p.Failures), PoisonedAt: p.PoisonedAt}
	if p.Step != "" {
		item.Step, item.Subject = ptr(p.Step), ptr(p.Subject)
	}
	return item
}

// videos returns what the videos on the board are called, as far as that is known,
// and notes those of which it is to be read.
func (r *reader) videos(now time.Time, s state) []api.BoardVideo {
	known := []api.BoardVideo{}
	r.missedTitle = nil
	for _, id := range videosOf(s) {
		t, found := r.board.titles.Get(id)
		if !found || now.Sub(t.at) > titleFor {
			if parsed, err := video.ParseID(id); err == nil {
				r.missedTitle = append(r.missedTitle, parsed)
			}
		}
		if found {
			known = append(known, api.BoardVideo{Id: id, Title: t.text})
		}
	}
	return known
}

// videosOf returns the videos that messages are about, each once, in order.
func videosOf(s state) []string {
	seen := map[string]bool{}
	for _, q := range s.queues {
		for _, l := range q.Lanes {
			for _, m := range l.Messages {
				if m.Video != nil {
					seen[*m.Video] = true
				}
			}
		}
	}
	for _, w := range s.workers {
		for _, t := range w.Tasks {
			seen[t.Video] = true
		}
	}
	for _, p := range s.poison {
		if p.Subject != nil {
			seen[*p.Subject] = true
		}
	}
	ids := make([]string, 0, len(seen))
	for id := range seen {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func ptr[T any](v T) *T { return &v }
