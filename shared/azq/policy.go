package azq

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

// Policy is what the roles tell each other about a queue while they run. The service
// returns it with the length, so it needs no request of its own (paper rows Q10 and Q16d).
// All lanes of a queue have the policy of lane 0.
type Policy struct {
	Visibility time.Duration // replaces Spec.Visibility; 0 when none was published
	Changed    time.Time     // when Visibility was, by the clock of who did it: for people; zero when it never was
	Epoch      int64         // counts the changes; a reader ignores a lower one than it has
	Paused     bool          // consumers do not receive; sending goes on
}

// The metadata names. Go's HTTP client changes the case of header names, so they are
// compared without case.
const (
	metaVisibility = "visibility_ms"
	metaEpoch      = "policy_epoch"
	metaPaused     = "paused"
	metaChanged    = "visibility_changed_ms" // Unix milliseconds
)

// State is a queue's length, as of one request, and its policy.
type State struct {
	Length int64 // messages, hidden ones included: perhaps more than there are (paper row Q4)
	Policy Policy
}

// Length reads the approximate length and the policy with one request. Later
// receives use that policy.
func (q *Queue) Length(ctx context.Context) (State, error) {
	got, err := q.client.GetProperties(ctx, nil)
	if err != nil {
		return State{}, fmt.Errorf("length of queue %s: %w", q.spec.Name, err)
	}
	if q.lead == q {
		q.adopt(readPolicy(got.Metadata))
	}
	state := State{Policy: q.Policy()}
	if got.ApproximateMessagesCount != nil {
		state.Length = *got.ApproximateMessagesCount
	}
	return state, nil
}

// Policy returns the newest policy that this process has seen. It makes no request.
func (q *Queue) Policy() Policy {
	q = q.lead
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.policy
}

// Visibility is the visibility timeout in force: the published value, or the declared
// one when none was published. It makes no request.
func (q *Queue) Visibility() time.Duration { return cmp.Or(q.Policy().Visibility, q.spec.Visibility) }

// Pause stops every consumer of the queue from receiving, within its refresh of the
// policy (15 s unless configured). [Queue.Resume] ends that. Items in progress are
// finished. Safe to repeat.
func (q *Queue) Pause(ctx context.Context) error {
	return q.publish(ctx, func(p *Policy) { p.Paused = true })
}

// Resume undoes [Queue.Pause]. Safe to repeat.
func (q *Queue) Resume(ctx context.Context) error {
	err := q.publish(ctx, func(p *Policy) { p.Paused = false })
	if err == nil {
		for _, lane := range q.lead.lanes {
			lane.ring(ctx)
		}
	}
	return err
}

// SetVisibility publishes a visibility timeout for every role: whole seconds (rounded up) from 1 s
// to 7 days, or 0 for the declared one. What a lease has already stays. Safe to repeat;
// [Queue.Tune] goes on from it (paper row Q16d).
func (q *Queue) SetVisibility(ctx context.Context, d time.Duration) error {
	return q.publish(ctx, func(p *Policy) { p.Visibility = time.Duration(seconds(d)) * time.Second })
}

// adopt makes p the policy in force unless it is older.
func (q *Queue) adopt(p Policy) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.read = time.Now()
	if p.Epoch >= q.policy.Epoch {
		q.policy = p
	}
}

// publish changes the policy for every role. Set Queue Metadata replaces the whole
// map and knows no ETag, so a blob lease admits one writer at a time.
func (q *Queue) publish(ctx context.Context, change func(*Policy)) error {
	q = q.lead
	err := q.blobs.Exclusively(ctx, ControlContainer, "queue-policy/"+q.spec.Name, func(ctx context.Context) error {
		return q.change(ctx, change)
	})
	if err != nil {
		return fmt.Errorf("policy of queue %s: %w", q.spec.Name, err)
	}
	return nil
}

func (q *Queue) change(ctx context.Context, change func(*Policy)) error {
	got, err := q.client.GetProperties(ctx, nil)
	if err != nil {
		return err
	}
	before := readPolicy(got.Metadata)
	after := before
	change(&after)
	if after != before {
		after.Epoch = before.Epoch + 1
		if after.Visibility != before.Visibility {
			after.Changed = time.UnixMilli(time.Now().UnixMilli()).UTC()
		}
		_, err = q.client.SetMetadata(ctx, &azqueue.SetMetadataOptions{Metadata: writePolicy(got.Metadata, after)})
	}
	if err == nil {
		q.adopt(after)
	}
	return err
}

func readPolicy(metadata map[string]*string) (p Policy) {
	for name, value := range metadata {
		n, _ := strconv.ParseInt(*value, 10, 64) // people write there, too: a text that is no number counts as 0
		switch strings.ToLower(name) {
		case metaPaused:
			p.Paused = *value == "true"
		case metaEpoch:
			p.Epoch = n
		case metaVisibility:
			if n > 0 {
				p.Visibility = time.Duration(min(max(n, minVisibility.Milliseconds()), maxVisibility.Milliseconds())) * time.Millisecond
			}
		case metaChanged:
			if n > 0 {
				p.Changed = time.UnixMilli(n).UTC()
			}
		}
	}
	return p
}

// writePolicy returns the metadata with our members changed. Others are kept.
func writePolicy(metadata map[string]*string, p Policy) map[string]*string {
	out := maps.Collect(maps.All(metadata))
	maps.DeleteFunc(out, func(name string, _ *string) bool {
		return slices.Contains([]string{metaVisibility, metaEpoch, metaPaused, metaChanged}, strings.ToLower(name))
	})
	if p.Visibility > 0 {
		out[metaVisibility] = new(strconv.FormatInt(p.Visibility.Milliseconds(), 10))
	}
	if !p.Changed.IsZero() {
		out[metaChanged] = new(strconv.FormatInt(p.Changed.UnixMilli(), 10))
	}
	out[metaEpoch] = new(strconv.FormatInt(p.Epoch, 10))
	out[metaPaused] = new(strconv.FormatBool(p.Paused))
	return out
}

// When the visibility timeout in force changes (paper row Q16d).
const (
	staleAtLeast = 3    // this many deletes or renewals came too late …
	staleShare   = 0.01 // … and they are this share of all
	raiseFactor  = 1.5
	lowerFactor  = 0.9
	tuneWindow   = 10 * time.Minute // what is counted together
	maxTuned     = 15 * time.Minute
)

// tuner counts how the leases of one queue ended in this process.
type tuner struct {
	mu      sync.Mutex
	since   time.Time     // start of the window
	done    int           // deletes in time
	stale   int           // deletes and renewals that failed because the message had become visible to others
	slowest time.Duration // of deletes in time, since the receiving
}

func (t *tuner) count(done, stale int, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done, t.stale, t.slowest = t.done+done, t.stale+stale, max(t.slowest, took)
}

// judge returns the factor by which the visibility timeout is to change. A change, and the
// end of the window, begin another window.
func (t *tuner) judge(now time.Time, inForce, declared time.Duration) float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since.IsZero() {
		t.since = now
	}
	factor := 1.0
	switch {
	case t.stale >= staleAtLeast && float64(t.stale) >= staleShare*float64(t.stale+t.done):
		factor = raiseFactor
	case now.Sub(t.since) < tuneWindow:
		return factor
	case t.stale == 0 && t.done > 0 && inForce > declared && inForce > 2*t.slowest:
		factor = lowerFactor
	}
	t.since, t.done, t.stale, t.slowest = now, 0, 0, 0
	return factor
}

// Tune raises the queue's visibility timeout when deletes or renewals came too late, and lowers
// it again, never below the declared value. Of two workers that see the same late deletes, only
// the first raises it. Every worker reads the change with its next [Queue.Length].
func (q *Queue) Tune(ctx context.Context) error {
	judged := q.Visibility()
	factor := q.lead.tuner.judge(time.Now(), judged, q.spec.Visibility)
	if factor == 1 {
		return nil
	}
	wanted := time.Duration(float64(judged) * factor)
	wanted = min(max(wanted, q.spec.Visibility), max(maxTuned, judged))
	return q.publish(ctx, func(p *Policy) {
		if cmp.Or(p.Visibility, q.spec.Visibility) == judged { // no other role was faster
			p.Visibility = time.Duration(seconds(wanted)) * time.Second
		}
	})
}
