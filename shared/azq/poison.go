package azq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// PoisonTable is the base name of the table of poison items:
//
//	PartitionKey  queue, with lane    "encode-high-2" (some: one for each queue, T4)
//	RowKey        message id          a GUID, so a repeated poisoning is one row
//
// Rows are written only when something is broken.
const PoisonTable = "poison"

// ErrNoPoison says that no poison item has that id: it may have been redriven.
var ErrNoPoison = errors.New("no such poisoned item")

// Poisoned is an item that used up its attempts or cannot be worked on.
type Poisoned struct {
	ID           string    `row:"-" json:"id"` // "<queue>~<message id>"
	Queue        string    `row:"-" json:"queue"`
	MessageID    string    `row:"-" json:"-"`
	Reason       string    `json:"reason"`
	History      string    `json:"-"`              // the latest failures, one line each
	ItemID       string    `row:"ItemId" json:"-"` // empty when the message is malformed, like Step and Subject
	Kind         string    `json:"step,omitempty"`
	Subject      string    `json:"subject,omitempty"`
	Text         []byte    `json:"-"` // the message as it was in the queue: a property of bytes holds 64 KiB, a string half of that
	Failures     int       `json:"failures"`
	DequeueCount int64     `json:"-"`
	Inserted     time.Time `json:"-"` // when the message was sent
	PoisonedAt   time.Time `json:"poisonedAt"`

	RedrivingSince time.Time `json:"-"` // when a redrive began

	etag string
}

func readPoison(e tablestore.Entity) (Poisoned, error) {
	p := Poisoned{etag: e.ETag, ID: e.PartitionKey + "~" + e.RowKey, Queue: e.PartitionKey, MessageID: e.RowKey}
	err := e.Struct(&p)
	return p, err
}

func (p Poisoned) entity() tablestore.Entity {
	return tablestore.Entity{PartitionKey: p.Queue, RowKey: p.MessageID, Props: tablestore.Props(p)}
}

// maxProperty is how many UTF-16 code units of a text are kept. A property holds 32,768.
const maxProperty = 32_000

// Poison ends the deliveries of the item: it writes a row in [PoisonTable] with the reason
// and the history, and then deletes the message. After a crash between the two the next
// delivery does both again.
func (l *Lease) Poison(ctx context.Context, reason string, record func(*Item)) error {
	return l.while("poison", func() error {
		text, err := l.recorded(record)
		if err == nil {
			err = l.setAside(ctx, text, reason)
		}
		if err != nil {
			return err
		}
		return l.delete(ctx)
	})
}

func (l *Lease) setAside(ctx context.Context, text, reason string) error {
	q := l.queue
	row := Poisoned{
		Queue: q.spec.Name, MessageID: l.MessageID, Reason: reason, History: l.item.History,
		ItemID: l.item.ID, Kind: l.item.Kind, Subject: l.item.Subject, Text: []byte(text), Failures: l.item.Failures,
		DequeueCount: l.DequeueCount, Inserted: l.Inserted, PoisonedAt: time.Now(),
	}
	for _, text := range []*string{&row.Reason, &row.History, &row.ItemID, &row.Kind, &row.Subject} {
		*text = azstore.Storable(*text, maxProperty)
	}
	return q.creating(ctx, func() error {
		_, err := q.poisoned.Upsert(ctx, row.entity())
		return err
	})
}

// ListPoison returns a page of poison items, ordered by queue, and the token of the
// next page, empty at the end. It scans the whole table, which is small (T5).
func (qs *queues) ListPoison(ctx context.Context, limit int, token string) ([]Poisoned, string, error) {
	var found []Poisoned
	query := tablestore.Query{PageSize: int32(min(max(limit, 1), 1000)), Class: tablestore.Scan, Read: tablestore.Into(&found, readPoison)}
	_, next, err := qs.poison.Page(ctx, query, token)
	if err != nil && !azstore.HasCode(err, aztables.TableNotFound) {
		return nil, "", fmt.Errorf("list poisoned items: %w", err)
	}
	return found, next, nil
}

// GetPoison returns one poison item, or [ErrNoPoison].
func (qs *queues) GetPoison(ctx context.Context, id string) (row Poisoned, _ error) {
	queue, messageID, _ := strings.Cut(id, "~")
	e, err := qs.poison.Get(ctx, queue, messageID)
	if errors.Is(err, tablestore.ErrNotFound) || errors.Is(err, tablestore.ErrLimit) || azstore.HasCode(err, aztables.TableNotFound) {
		err = ErrNoPoison
	}
	if err != nil {
		return row, fmt.Errorf("poisoned item %q: %w", id, err)
	}
	return tablestore.Decode(ctx, qs.poison, e, readPoison)
}

// ErrRedriving says that a redrive of the item is under way, or was cut off a moment ago.
var ErrRedriving = errors.New("the item is being redriven")

// redriveTakes is how long a redrive may take. One that began earlier was cut off.
const redriveTakes = time.Minute

// Redrive sends a poison item to its queue once more, with all counters reset and
// the same id, and removes its row. Of several at once one sends it, because each claims the
// row first, and the others get [ErrRedriving]. A repetition after a crash may send a
// duplicate, a minute later at the earliest.
func (qs *queues) Redrive(ctx context.Context, id string) error {
	row, err := qs.GetPoison(ctx, id)
	if err != nil {
		return err
	}
	q, err := qs.Find(row.Queue)
	if err == nil {
		err = qs.claim(ctx, row)
	}
	if err == nil {
		err = q.sendAgain(ctx, string(row.Text))
	}
	if err == nil {
		err = qs.DiscardPoison(ctx, id)
	}
	if err != nil {
		return fmt.Errorf("redrive %s: %w", id, err)
	}
	return nil
}

// claim marks a row as being redriven by this caller alone.
func (qs *queues) claim(ctx context.Context, row Poisoned) error {
	if time.Since(row.RedrivingSince) < redriveTakes {
		return ErrRedriving
	}
	row.RedrivingSince = time.Now()
	_, err := qs.poison.Update(ctx, row.entity(), row.etag)
	if tablestore.Overtaken(err) {
		return fmt.Errorf("%w: %w", ErrRedriving, err)
	}
	return err
}

func (q *Queue) sendAgain(ctx context.Context, text string) error {
	item, err := DecodeItem(text)
	if err != nil { // not readable here; a newer worker may be able to read it
		err = q.enqueue(ctx, text, 0, 0)
		q.ring(ctx)
		return err
	}
	item.Reset()
	return q.Send(ctx, item, 0)
}

// DiscardPoison removes a poison item for good. A missing one is no error.
func (qs *queues) DiscardPoison(ctx context.Context, id string) error {
	queue, messageID, _ := strings.Cut(id, "~")
	err := qs.poison.Delete(ctx, queue, messageID, tablestore.AnyETag)
	if err != nil && !azstore.IsNotFound(err) {
		return fmt.Errorf("discard %s: %w", id, err)
	}
	return nil
}
