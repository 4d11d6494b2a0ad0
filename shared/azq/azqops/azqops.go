// Package azqops is what people do to queues: look, read their poison, send it back, pause, empty.
// [Handler] is an HTTP API of it, and the command azq is the same for a terminal.
//
//	mux.Handle("/ops/", http.StripPrefix("/ops", onlyOperators(azqops.Handler(client))))
package azqops

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/azq"
)

// Queue is what people are told of a queue.
type Queue struct {
	Name              string  `json:"name"`
	Length            int64   `json:"length"`                     // approximate; messages in flight too
	VisibilitySeconds float64 `json:"visibilitySeconds,omitzero"` // in force, but of a discovered queue the published one only
	Paused            bool    `json:"paused"`
	Poison            bool    `json:"poison"`
	Pool              string  `json:"pool,omitempty"` // empty for a discovered queue
}

// Queues returns all queues of a client with their poison queues: see [azq.Discover] for those
// that an account has. One request per queue reads length and policy together (paper rows Q4
// and Q10). A declared queue that does not exist yet has no messages.
func Queues(ctx context.Context, client *azq.Client) ([]Queue, error) {
	var all []*azq.Queue
	for _, spec := range client.Specs() {
		all = append(all, client.Queue(spec.Name))
		if poison, err := client.Find(azq.PoisonName(spec.Name)); err == nil {
			all = append(all, poison)
		}
	}
	list, missing := make([]Queue, len(all)), make([]bool, len(all))
	group, groupCtx := errgroup.WithContext(ctx)
	for i, q := range all {
		group.Go(func() error {
			state, err := q.Length(groupCtx)
			list[i] = Queue{Name: q.Name(), Length: state.Length, Pool: q.Spec().Pool, Poison: client.Queue(q.Name()) == nil}
			if azq.IsMissing(err) {
				missing[i], err = true, nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	shown := make([]Queue, 0, len(all))
	for i, q := range all { // only now is the policy of lane 0 read, which holds for all lanes
		list[i].VisibilitySeconds, list[i].Paused = q.Visibility().Seconds(), q.Policy().Paused
		if isDeclared := q.Spec().Visibility > 0; isDeclared || !missing[i] {
			shown = append(shown, list[i])
		}
	}
	return shown, nil
}

// Message is what people are told of a message.
type Message struct {
	ID           string          `json:"id"`
	DequeueCount int64           `json:"dequeueCount"`
	InsertedAt   time.Time       `json:"insertedAt,omitzero"`
	Type         string          `json:"type,omitempty"` // empty, as all below but Error, when the text cannot be read
	Subject      string          `json:"subject,omitempty"`
	Failures     int             `json:"failures"`
	LastError    string          `json:"lastError,omitempty"`
	Data         json.RawMessage `json:"data,omitempty"`  // absent when it is in a claim check
	Error        string          `json:"error,omitempty"` // why the text is not an item for us
}

// Peek returns up to limit (1 to [azq.MaxBatch]) visible messages without taking them.
func Peek(ctx context.Context, client *azq.Client, queue string, limit int) ([]Message, error) {
	q, err := client.Find(queue)
	if err != nil {
		return nil, err
	}
	seen, err := q.Peek(ctx, limit)
	messages := make([]Message, len(seen))
	for i, p := range seen {
		m := Message{ID: p.MessageID, DequeueCount: p.DequeueCount, InsertedAt: p.Inserted}
		if p.Err != nil {
			m.Error = p.Err.Error()
		} else {
			m.Type, m.Subject, m.Failures, m.LastError, m.Data = p.Item.Type(), p.Item.Subject, p.Item.Failures, p.Item.LastError, p.Item.Data
		}
		messages[i] = m
	}
	return messages, err
}

// NewItem is work to be sent.
type NewItem struct {
	Kind         string          `json:"kind"` // names the handler
	ID           string          `json:"id"`   // default: drawn at random
	Subject      string          `json:"subject"`
	Data         json.RawMessage `json:"data"`
	DelaySeconds int             `json:"delaySeconds"` // at most 7 days
}

// payload is data of a kind that is known when it is sent only.
type payload struct {
	json.RawMessage
	kind string
}

// Kind implements azq.Payload.
func (p payload) Kind() string { return p.kind }

// Send puts an item into a queue and returns its id: see [azq.Client.Send].
func Send(ctx context.Context, client *azq.Client, queue string, work NewItem) (id string, err error) {
	return client.Send(ctx, payload{work.Data, work.Kind}, azq.InQueue(queue), azq.ID(cmp.Or(work.ID, rand.Text())),
		azq.Subject(work.Subject), azq.After(time.Duration(work.DelaySeconds)*time.Second))
}
