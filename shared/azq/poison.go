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

	// The copy in the poison queue. The receipt from sending is valid until a worker receives
	// the copy.
	CopyMessageID string `row:"CopyMessageId" json:"-"`
	CopyReceipt   string `json:"-"`

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

// Poison ends the deliveries of the item. In this order it writes a row in
// [PoisonTable] with the reason and the history, sends a copy to the queue
// <name>-poison, where other tools look for it, and deletes the message. After a
// crash the next delivery repeats all three; the row remembers the copy.
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
	before, err := q.poisoned(ctx, l.MessageID)
	if err != nil && !errors.Is(err, ErrNoPoison) {
		return err
	}
	row := Poisoned{
		Queue: q.spec.Name, MessageID: l.MessageID, Reason: reason, History: l.item.History,
		ItemID: l.item.ID, Kind: l.item.Kind, Subject: l.item.Subject, Text: []byte(text), Failures: l.item.Failures,
		DequeueCount: l.DequeueCount, Inserted: l.Inserted, PoisonedAt: time.Now(),
		CopyMessageID: before.CopyMessageID, CopyReceipt: before.CopyReceipt, RedrivingSince: before.RedrivingSince,
	}
	for _, text := range []*string{&row.Reason, &row.History, &row.ItemID, &row.Kind, &row.Subject} {
		*text = azstore.Storable(*text, maxProperty)
	}
	var etag string
	err = q.creating(ctx, func() (err error) {
		etag, err = q.poisonedRows.Upsert(ctx, row.entity())
		return err
	})
	if err != nil || row.CopyMessageID != "" { // the copy was sent before a crash
		return err
	}
	sent, err := q.enqueue(ctx, q.poison, text, 0, 0)
	if err != nil || len(sent.Messages) != 1 {
		return err
	}
	row.CopyMessageID, row.CopyReceipt = *sent.Messages[0].MessageID, *sent.Messages[0].PopReceipt
	_, err = q.poisonedRows.Update(ctx, row.entity(), etag)
	if tablestore.Overtaken(err) {
		// Another process was quicker: an operator who saw the row and has redriven the item, or
		// a worker that poisons it too and has a copy of its own.
		return q.removeCopy(ctx, row)
	}
	return err
}

// poisoned returns the row of a message, or [ErrNoPoison].
func (q *Queue) poisoned(ctx context.Context, messageID string) (row Poisoned, _ error) {
	e, err := q.poisonedRows.Get(ctx, q.spec.Name, messageID)
	if errors.Is(err, tablestore.ErrNotFound) || errors.Is(err, tablestore.ErrLimit) || azstore.HasCode(err, aztables.TableNotFound) {
		err = ErrNoPoison
	}
	if err != nil {
		return row, fmt.Errorf("poisoned item %q: %w", q.spec.Name+"~"+messageID, err)
	}
	return tablestore.Decode(ctx, q.poisonedRows, e, readPoison)
}

// ListPoison returns a page of poison items, ordered by queue, and the token of the
// next page, empty at the end. It scans the whole table, which is small (T5).
func (c *Client) ListPoison(ctx context.Context, limit int, token string) ([]Poisoned, string, error) {
	var found []Poisoned
	query := tablestore.Query{PageSize: int32(min(max(limit, 1), 1000)), Class: tablestore.Scan, Read: tablestore.Into(&found, readPoison)}
	_, next, err := tablestore.New(c.account, PoisonTable).Page(ctx, query, token)
	if err != nil && !azstore.HasCode(err, aztables.TableNotFound) {
		return nil, "", fmt.Errorf("list poisoned items: %w", err)
	}
	return found, next, nil
}

// GetPoison returns one poison item, or [ErrNoPoison].
func (c *Client) GetPoison(ctx context.Context, id string) (Poisoned, error) {
	_, row, err := c.poisoned(ctx, id)
	return row, err
}

// ErrRedriving says that a redrive of the item is under way, or was cut off a moment ago.
var ErrRedriving = errors.New("the item is being redriven")

// redriveTakes is how long a redrive may take. One that began earlier was cut off.
const redriveTakes = time.Minute

// Redrive sends a poison item to its queue once more, with all counters reset and
// the same id, and removes its row. Of several at once one sends it, because each claims the
// row first, and the others get [ErrRedriving] or, when that is done, [ErrNoPoison]. A repetition after a crash may send a
// duplicate, a minute later at the earliest.
func (c *Client) Redrive(ctx context.Context, id string) (Poisoned, error) {
	q, row, err := c.poisoned(ctx, id)
	if err != nil {
		return Poisoned{}, err
	}
	if c.byName[q.spec.Name] == nil {
		return row, fmt.Errorf("redrive %s: %w: %q", id, ErrNoQueue, q.spec.Name)
	}
	row, err = q.claim(ctx, row)
	if err == nil {
		err = q.sendAgain(ctx, string(row.Text))
	}
	if err == nil {
		err = q.forget(ctx, row, tablestore.AnyETag) // the claim keeps a worker from adding a copy
	}
	if err != nil {
		return row, fmt.Errorf("redrive %s: %w", id, err)
	}
	return row, nil
}

// claim marks a row as being redriven by this caller alone, and returns it as it is now: a
// worker that has just written it adds the copy a moment later.
func (q *Queue) claim(ctx context.Context, row Poisoned) (Poisoned, error) {
	for time.Since(row.RedrivingSince) >= redriveTakes {
		claimed := row
		claimed.RedrivingSince = time.Now()
		_, err := q.poisonedRows.Update(ctx, claimed.entity(), row.etag)
		if !tablestore.Overtaken(err) {
			return claimed, err
		}
		if row, err = q.poisoned(ctx, row.MessageID); err != nil {
			return row, err
		}
	}
	return row, ErrRedriving
}

func (q *Queue) sendAgain(ctx context.Context, text string) error {
	item, err := DecodeItem(text)
	if err != nil { // not readable here; a newer worker may be able to read it
		_, err = q.enqueue(ctx, q.client, text, 0, 0)
		q.ring(ctx)
		return err
	}
	item.Failures, item.Releases, item.Kills, item.Snoozes, item.Starts = 0, 0, 0, 0, 0
	item.LastError, item.History = "", ""
	return q.Send(ctx, item, 0, 0)
}

// DiscardPoison removes a poison item for good. A missing one is no error.
func (c *Client) DiscardPoison(ctx context.Context, id string) error {
	q, row, err := c.poisoned(ctx, id)
	for err == nil {
		if err = q.forget(ctx, row, row.etag); !tablestore.Overtaken(err) {
			break
		}
		row, err = q.poisoned(ctx, row.MessageID) // a worker that has just written it added the copy
	}
	if err != nil && !errors.Is(err, ErrNoPoison) {
		return fmt.Errorf("discard %s: %w", id, err)
	}
	return nil
}

// forget removes the copy and then the row. A copy that another tool has is left to it.
func (q *Queue) forget(ctx context.Context, row Poisoned, etag string) error {
	if err := q.removeCopy(ctx, row); err != nil {
		return err
	}
	return tablestore.IgnoreNotFound(q.poisonedRows.Delete(ctx, row.Queue, row.MessageID, etag))
}

// removeCopy deletes the message that a row names in the poison queue, if it names one.
func (q *Queue) removeCopy(ctx context.Context, row Poisoned) error {
	if row.CopyMessageID == "" {
		return nil
	}
	if _, err := q.poison.DeleteMessage(ctx, row.CopyMessageID, row.CopyReceipt, nil); err != nil && !refused(err) {
		return err
	}
	return nil
}

// poisoned finds a poison item and its queue, which may be one that is declared no more.
func (c *Client) poisoned(ctx context.Context, id string) (q *Queue, row Poisoned, err error) {
	queue, messageID, _ := strings.Cut(id, "~")
	q = c.byName[queue]
	if q == nil {
		q = OpenQueue(c.account, Spec{Name: queue})
	}
	row, err = q.poisoned(ctx, messageID)
	return q, row, err
}
