package videostore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/shared/workitem"
)

// Intent is a promise to enqueue one work item. The video of its key is not
// stored: it is the partition's.
type Intent struct {
	Queue string `json:"q"`
	workflow.Key
	Version int `json:"v,omitempty"` // of the message; 0: the first
	// Item is the id of the item. Empty: derived from the key, so that sending an
	// intent twice makes two messages that are recognisably the same item.
	Item string `json:"id,omitempty"`

	alone bool // its failure is nobody else's
}

// Is reports whether an item of the video does what the intent asks for. Items
// with an id of their own are all alike: each makes other tables follow META.
func (i Intent) Is(id video.ID, item workitem.Item) bool {
	i.ID = id
	return item.Subject == string(i.ID) && item.Step == i.Step && (i.Item != "" || item.ID == i.ItemID())
}

// item builds the message.
func (i Intent) item() (workitem.Item, error) {
	name := i.Item
	if name == "" {
		name = i.ItemID()
	}
	item, err := workitem.New(i.Step, string(i.ID), name, i.Payload())
	item.Version = max(item.Version, i.Version)
	item.Traceparent = traceparent(i.ID)
	return item, err
}

// traceparent makes all work on one video one trace, whoever does it: the trace
// id is derived from the video's id, the span is this message's
// (https://www.w3.org/TR/trace-context/).
func traceparent(id video.ID) string {
	trace := sha256.Sum256([]byte(id))
	var span [8]byte
	_, _ = rand.Read(span[:]) // never fails since Go 1.24
	return fmt.Sprintf("00-%x-%x-01", trace[:16], span)
}

// intentsPerRow keeps an outbox row far under the 64 KiB of one property.
const intentsPerRow = 300

// outboxRows packs intents into as few rows as fit. A fan-out to hundreds of
// chunks stays one entity-group transaction that way.
func outboxRows(id video.ID, intents []Intent) ([]tablestore.Entity, error) {
	var rows []tablestore.Entity
	for len(intents) > 0 {
		n := min(len(intents), intentsPerRow)
		packed, err := json.Marshal(intents[:n])
		if err != nil {
			return nil, fmt.Errorf("encode outbox of %s: %w", id, err)
		}
		key, err := uuid.NewV7()
		if err != nil {
			return nil, fmt.Errorf("name outbox row of %s: %w", id, err)
		}
		rows = append(rows, tablestore.Entity{
			PartitionKey: string(id), RowKey: "OUT:" + key.String(),
			Props: map[string]any{"Intents": string(packed)},
		})
		intents = intents[n:]
	}
	return rows, nil
}

// sendRows enqueues what outbox rows promise, then deletes them, in that order:
// a crash between the two sends an item twice, which steps bear; the other
// order would lose it.
func (s *Store) sendRows(ctx context.Context, id video.ID, rows []tablestore.Entity) error {
	for _, row := range rows {
		var intents []Intent
		if err := row.JSON("Intents", &intents); err != nil {
			return fmt.Errorf("decode outbox row of %s: %w", id, err)
		}
		for _, intent := range intents {
			intent.ID = id
			item, err := intent.item()
			if err != nil {
				return fmt.Errorf("build item for %s of %s: %w", intent.Step, id, err)
			}
			if err := s.sender.Send(ctx, intent.Queue, item, 0); err != nil {
				return fmt.Errorf("enqueue %s of %s: %w", intent.Step, id, err)
			}
		}
		if err := s.videos.Delete(ctx, row.PartitionKey, row.RowKey, "*"); err != nil && !errors.Is(err, tablestore.ErrNotFound) {
			return fmt.Errorf("clear outbox row of %s: %w", id, err)
		}
	}
	return nil
}

// Resend promises intents once more and sends them: for messages that are
// believed to be lost. META stays as it is, and with it the ETag that users hold.
// So the transaction with META that otherwise guards an outbox row is missing;
// the mark, which comes first, makes up for it: Sweep finds the row if the video
// was purged and this process killed in the same moment.
func (s *Store) Resend(ctx context.Context, rec Record, intents []Intent) error {
	if err := s.markAtRest(ctx, rec); err != nil {
		return err
	}
	rows, err := outboxRows(rec.Video.ID, intents)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if _, err := s.videos.Insert(ctx, row); err != nil {
			return fmt.Errorf("promise %s of %s again: %w", intents[0].Step, rec.Video.ID, err)
		}
	}
	return s.sendRows(ctx, rec.Video.ID, rows)
}

// Flush sends everything that the video's outbox still promises. Safe to
// repeat, and safe beside another Flush.
func (s *Store) Flush(ctx context.Context, id video.ID) error {
	rows, err := collect(s.videos.Query(ctx, tablestore.Query{
		PartitionKey: string(id), RowFrom: "OUT:", RowTo: tablestore.PrefixEnd("OUT:"), Class: tablestore.RowRange,
	}))
	if err != nil {
		return fmt.Errorf("read outbox of %s: %w", id, err)
	}
	return s.sendRows(ctx, id, rows)
}
