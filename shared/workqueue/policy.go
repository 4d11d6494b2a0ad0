package workqueue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/cutroom/cutroom/shared/blobstore"
)

// Policy is what every role knows about a queue beyond its declaration. It is
// published in the queue's metadata, so the request that reads the length brings
// it along for nothing (paper rows Q10 and Q16d). The lanes of a queue share the
// policy of lane 0.
type Policy struct {
	// Visibility replaces Spec.Visibility; 0 means that none was published.
	Visibility time.Duration
	// Epoch counts the changes. A reader keeps the highest it has seen.
	Epoch int64
	// Paused stops consumers from receiving. Sending goes on.
	Paused bool
}

// The metadata names. The service demands C# identifiers, and Go canonicalises
// their case on the way back, so they are compared without case.
const (
	metaVisibility = "vp_vis" // milliseconds
	metaEpoch      = "vp_epoch"
	metaPaused     = "vp_paused"
)

// State is a queue's length and its policy, as of one request.
type State struct {
	// Length is the number of messages, hidden ones included: not lower than
	// the truth, perhaps higher. It is the scaling signal (paper row Q4).
	Length int64
	Policy Policy
}

// Length reads the approximate length and the policy in one request, and adopts
// the policy for further receives.
func (q *Queue) Length(ctx context.Context) (State, error) {
	got, err := q.client.GetProperties(ctx, nil)
	if err != nil {
		return State{}, fmt.Errorf("length of queue %s: %w", q.spec.Name, err)
	}
	state := State{Policy: readPolicy(got.Metadata)}
	if got.ApproximateMessagesCount != nil {
		state.Length = *got.ApproximateMessagesCount
	}
	if q.lead == q {
		q.adopt(state.Policy)
	} else {
		state.Policy = q.Policy()
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

// Visibility is how long messages received now stay hidden: the published value,
// or the declared one when none was published. It makes no request.
func (q *Queue) Visibility() time.Duration { return q.visibilityUnder(q.Policy()) }

func (q *Queue) visibilityUnder(p Policy) time.Duration {
	if p.Visibility > 0 {
		return p.Visibility
	}
	return q.spec.Visibility
}

// Pause stops every consumer of the queue within its policy refresh (15 s unless
// configured); Resume lets them go on. Items in progress are finished. Both may
// be repeated.
func (q *Queue) Pause(ctx context.Context) error { return q.setPaused(ctx, true) }

// Resume undoes [Queue.Pause].
func (q *Queue) Resume(ctx context.Context) error { return q.setPaused(ctx, false) }

func (q *Queue) setPaused(ctx context.Context, paused bool) error {
	return q.publish(ctx, func(p Policy) Policy { p.Paused = paused; return p })
}

// adopt takes over a policy unless it is older than the one in force.
func (q *Queue) adopt(p Policy) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.Epoch >= q.policy.Epoch {
		q.policy = p
	}
}

// publish changes the policy for every role. Set Queue Metadata replaces the
// whole map and knows no ETag, so two writers at once would lose a change: a
// blob lease lets in one at a time. A change that changes nothing is not written.
func (q *Queue) publish(ctx context.Context, change func(Policy) Policy) error {
	q = q.lead
	lock, err := q.lockPolicy(ctx)
	if err != nil {
		return fmt.Errorf("policy of queue %s: %w", q.spec.Name, err)
	}
	defer func() { _ = lock.Release(context.WithoutCancel(ctx)) }() // it ends by itself too

	got, err := q.client.GetProperties(ctx, nil)
	if err != nil {
		return fmt.Errorf("policy of queue %s: %w", q.spec.Name, err)
	}
	before := readPolicy(got.Metadata)
	after := change(before)
	if after == before {
		q.adopt(before)
		return nil
	}
	after.Epoch = before.Epoch + 1
	_, err = q.client.SetMetadata(ctx, &azqueue.SetMetadataOptions{Metadata: writePolicy(got.Metadata, after)})
	if err != nil {
		return fmt.Errorf("policy of queue %s: %w", q.spec.Name, err)
	}
	q.adopt(after)
	return nil
}

// lockPolicy waits for the right to write the queue's metadata. The lock of a
// writer that died ends after 15 s, the shortest lease there is.
func (q *Queue) lockPolicy(ctx context.Context) (*blobstore.BlobLease, error) {
	for {
		lock, err := q.blobs.AcquireLease(ctx, ControlContainer, "queue-policy/"+q.spec.Name, 15*time.Second)
		if !errors.Is(err, blobstore.ErrLeaseTaken) {
			return lock, err
		}
		if err := sleep(ctx, 250*time.Millisecond); err != nil {
			return nil, fmt.Errorf("another writer holds the lock: %w", err)
		}
	}
}

func readPolicy(metadata map[string]*string) Policy {
	var p Policy
	for name, value := range metadata {
		if value == nil {
			continue
		}
		switch strings.ToLower(name) {
		case metaVisibility:
			if ms, err := strconv.ParseInt(*value, 10, 64); err == nil {
				p.Visibility = min(max(time.Duration(ms)*time.Millisecond, 0), maxVisibility)
			}
		case metaEpoch:
			p.Epoch, _ = strconv.ParseInt(*value, 10, 64) // somebody else's text counts as the oldest
		case metaPaused:
			p.Paused = *value == "true"
		}
	}
	return p
}

// writePolicy returns the metadata with our three members changed and those of
// others kept.
func writePolicy(metadata map[string]*string, p Policy) map[string]*string {
	out := map[string]*string{}
	for name, value := range metadata {
		switch strings.ToLower(name) {
		case metaVisibility, metaEpoch, metaPaused:
		default:
			out[name] = value
		}
	}
	if p.Visibility > 0 {
		out[metaVisibility] = ptr(strconv.FormatInt(p.Visibility.Milliseconds(), 10))
	}
	out[metaEpoch] = ptr(strconv.FormatInt(p.Epoch, 10))
	out[metaPaused] = ptr(strconv.FormatBool(p.Paused))
	return out
}
