package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// OutboxMessage is the promise of one work item. The subject of its key is not stored, because
// it is the PartitionKey of the outbox row.
type OutboxMessage struct {
	Queue string `json:"q"`
	Key
	Version int `json:"v,omitempty"` // of the item: see Meta.ItemVersion
	// Trace is the W3C trace context of the item's sender; empty without tracing.
	Trace string `json:"tp,omitempty"`

	Declared Step `json:"-"` // that it asks for, as the plan declares it
}

// Is reports whether an item asks for the same work as the message.
func (i OutboxMessage) Is(id ID, item azq.Item) bool {
	i.ID = id
	return item.ID == i.ItemID()
}

var tracer = otel.Tracer("engine")

// messagesPerRow keeps an outbox row far under the 64 KiB of one property.
const messagesPerRow = 100

// outboxRows packs messages into as few rows as fit, so that a fan-out to hundreds of
// parts fits in one entity-group transaction.
func outboxRows(ctx context.Context, id ID, messages []OutboxMessage) (rows []tablestore.Entity) {
	for some := range slices.Chunk(traced(ctx, messages), messagesPerRow) {
		rows = append(rows, tablestore.Entity{
			PartitionKey: string(id), RowKey: "OUT:" + uuid.Must(uuid.NewV7()).String(),
			Props: tablestore.Props(struct{ Messages []OutboxMessage }{some}),
		})
	}
	return rows
}

func traced(ctx context.Context, messages []OutboxMessage) []OutboxMessage {
	messages = slices.Clone(messages)
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	for i := range messages {
		messages[i].Trace = carrier["traceparent"]
	}
	return messages
}

func inserted(rows []tablestore.Entity) (ops []tablestore.Op) {
	for _, row := range rows {
		ops = append(ops, tablestore.Op{Kind: tablestore.OpInsert, Entity: row})
	}
	return ops
}

// promise writes a row and the promise of messages in one transaction, if META is as it was
// read, and sends them.
func (s *Store[V, P]) promise(ctx context.Context, rec Record[V], row tablestore.Op, messages []OutboxMessage) error {
	id := rec.Meta().ID
	out := outboxRows(ctx, id, messages)
	_, err := s.subjects.Submit(ctx, append([]tablestore.Op{rec.unchangedMeta(), row}, inserted(out)...))
	if err != nil {
		return err
	}
	return s.sendRows(ctx, id, out)
}

// unchangedMeta is an operation that changes nothing and is refused when META was
// changed or is gone, so that no row is added to a subject that is being purged.
func (r Record[V]) unchangedMeta() tablestore.Op {
	meta := tablestore.Entity{PartitionKey: string(r.Meta().ID), RowKey: MetaKey}
	return tablestore.Op{Kind: tablestore.OpMerge, Entity: meta, IfMatch: r.ETag}
}

// sendRows enqueues what outbox rows promise and then deletes them. A crash between the
// two sends an item twice, which does no harm. The other order would lose the item.
func (s *Store[V, P]) sendRows(ctx context.Context, id ID, rows []tablestore.Entity) error {
	for _, row := range rows {
		var messages []OutboxMessage
		if err := row.JSON("Messages", &messages); err != nil {
			return fmt.Errorf("decode outbox row of %s: %w", id, err)
		}
		if err := s.send(ctx, id, messages); err != nil {
			return err
		}
		if err := s.subjects.Delete(ctx, row.PartitionKey, row.RowKey, tablestore.AnyETag); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store[V, P]) send(ctx context.Context, id ID, messages []OutboxMessage) error {
	for _, message := range messages {
		message.ID = id
		item, err := azq.NewItem(message.Step, string(id), message.ItemID(), message.Payload())
		item.Namespace, item.Source, item.Traceparent = s.Name, "/"+s.Name, message.Trace
		item.Version = max(1, message.Version)
		if err == nil {
			err = s.sender.SendItem(ctx, message.Queue, item, 0)
		}
		if err != nil {
			return fmt.Errorf("enqueue %s of %s: %w", message.Step, id, err)
		}
	}
	return nil
}

// Resend sends messages that are believed to be lost, or are wanted sooner. No outbox row
// promises them: when the caller dies, the loss is found again, or what led here is repeated.
// Safe to repeat.
func (s *Store[V, P]) Resend(ctx context.Context, rec Record[V], messages []OutboxMessage) error {
	// What upkeep sends again belongs to no trace: this is where one begins.
	ctx, span := tracer.Start(ctx, "promise again")
	defer span.End()
	return s.send(ctx, rec.Meta().ID, traced(ctx, messages))
}

// Flush sends everything that the subject's outbox promises. Safe to repeat, and safe
// beside another Flush.
func (s *Store[V, P]) Flush(ctx context.Context, id ID) error {
	for row, err := range s.subjects.Query(ctx, rowsOf(id, "OUT:")) {
		if err == nil {
			err = s.sendRows(ctx, id, []tablestore.Entity{row})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
