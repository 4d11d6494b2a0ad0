package workqueue

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/storable"
	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/workitem"
)

// PoisonTable is the base name of the table of poison items:
//
//	PartitionKey  queue, with lane    "encode-high-2" (some: one for each queue, T4)
//	RowKey        message id          a GUID, so a repeated poisoning is one row
//
// Redrive reads one row, operators read all. Rows are written only when something is
// broken, so the table stays small.
const PoisonTable = "poison"

// ErrNoPoison says that no poison item has that id: it may have been redriven.
var ErrNoPoison = errors.New("no such poisoned item")

// Poisoned is an item that used up its attempts or cannot be worked on.
type Poisoned struct {
	ID           string // "<queue>~<message id>"
	Queue        string
	MessageID    string
	Reason       string
	History      string // the latest failures, one line each
	ItemID       string // empty when the message is malformed, like Step and Subject
	Step         string
	Subject      string
	Text         string // the message as it was in the queue
	Failures     int
	DequeueCount int64
	Inserted     time.Time // when the message was sent
	PoisonedAt   time.Time
}

// poisonBox is the table and the queue for the poison items of one queue.
type poisonBox struct {
	account *azstorage.Account
	table   *tablestore.Table
	queue   *azqueue.QueueClient // <queue>-poison
}

// maxProperty is how many UTF-16 code units of a text are kept. A property holds 32,768.
const maxProperty = 32_000

// Poison ends the deliveries of the item. In this order it writes a row in
// [PoisonTable] with the reason and the history, sends a copy to the queue
// <name>-poison, where other tools look for it, and deletes the message. After a
// crash the next delivery repeats all three. The row remembers the copy, so only a
// crash directly after sending the copy makes a second one. The function record, if
// not nil, writes the last failure into the item.
func (l *Lease) Poison(ctx context.Context, reason string, record func(*workitem.Item)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != nil {
		return l.saying("poison", l.end)
	}
	text, err := l.recorded(record)
	if err == nil {
		err = l.queue.poison.put(ctx, l, text, reason)
	}
	if err == nil {
		err = l.delete(ctx)
	}
	return l.saying("poison", err)
}

func (b *poisonBox) put(ctx context.Context, l *Lease, text, reason string) error {
	row, err := b.table.Get(ctx, l.queue.spec.Name, l.messageID)
	switch {
	case errors.Is(err, tablestore.ErrNotFound), azstorage.HasCode(err, aztables.TableNotFound):
		row = tablestore.Entity{PartitionKey: l.queue.spec.Name, RowKey: l.messageID, Props: map[string]any{}}
	case err != nil:
		return err
	}
	for name, value := range map[string]string{
		"Reason": reason, "History": l.item.History, "ItemId": l.item.ID, "Step": l.item.Step, "Subject": l.item.Subject,
	} {
		row.Props[name] = storable.Text(value, maxProperty)
	}
	row.Props["Text"] = []byte(text) // binary holds 64 KiB, a string property half of that
	row.Props["Failures"] = int32(l.item.Failures)
	row.Props["DequeueCount"] = l.dequeueCount
	row.Props["Inserted"] = l.inserted.UTC()
	row.Props["PoisonedAt"] = time.Now().UTC()
	etag, err := b.upsert(ctx, row)
	if err != nil {
		return err
	}
	if row.String(copyID) != "" {
		return nil // the copy was sent before a crash
	}
	sent, err := enqueue(ctx, b.queue, text, 0)
	if err != nil {
		return err
	}
	if len(sent.Messages) != 1 {
		return nil
	}
	row.Props[copyID], row.Props[copyReceipt] = *sent.Messages[0].MessageID, *sent.Messages[0].PopReceipt
	_, err = b.table.Update(ctx, row, etag)
	if errors.Is(err, tablestore.ErrNotFound) || errors.Is(err, tablestore.ErrChanged) {
		// Another process was quicker: an operator who saw the row and has redriven the item, or
		// a worker that poisons it too and has a copy of its own.
		return b.removeCopy(ctx, row)
	}
	return err
}

// upsert writes a row, and makes the table if it is missing: without it a poison item
// would come back for ever.
func (b *poisonBox) upsert(ctx context.Context, row tablestore.Entity) (etag string, err error) {
	etag, err = b.table.Upsert(ctx, row)
	if azstorage.HasCode(err, aztables.TableNotFound) {
		if err := b.account.Ensure(ctx, nil, nil, []string{PoisonTable}); err != nil {
			return etag, err
		}
		etag, err = b.table.Upsert(ctx, row)
	}
	return etag, err
}

// Properties of the row that name the copy in the poison queue. The receipt from
// sending is valid until a worker receives the copy.
const (
	copyID      = "CopyMessageId"
	copyReceipt = "CopyReceipt"
)

// ListPoison returns a page of poison items, ordered by queue, and the token of the
// next page, empty at the end. It scans the whole table, which is small (T5).
func (qs *Queues) ListPoison(ctx context.Context, limit int, token string) ([]Poisoned, string, error) {
	var found []Poisoned
	query := tablestore.Query{PageSize: int32(min(max(limit, 1), 1000)), Class: tablestore.Scan, Read: tablestore.Into(&found, readPoisoned)}
	_, next, err := qs.poison.Page(ctx, query, token)
	if err != nil {
		return nil, "", fmt.Errorf("list poisoned items: %w", err)
	}
	return found, next, nil
}

// GetPoison returns one poison item, or [ErrNoPoison].
func (qs *Queues) GetPoison(ctx context.Context, id string) (Poisoned, error) {
	row, err := qs.poisonRow(ctx, id)
	if err != nil {
		return Poisoned{}, err
	}
	return tablestore.Decode(ctx, qs.poison, row, readPoisoned)
}

// ErrRedriving says that the item is being redriven, or that a redrive was cut off less than
// a minute ago.
var ErrRedriving = errors.New("the item is being redriven")

const (
	// redriving is the property that says since when the item is being redriven.
	redriving = "RedrivingSince"
	// redriveTakes is how long a redrive may take. One that began earlier was cut off.
	redriveTakes = time.Minute
)

// Redrive sends a poison item to its queue once more, with all counters reset and
// the same id, and removes its row. Before that, change what made the work fail, or
// it fails again. Of several at once one sends it, because each claims the row first, and
// the others get [ErrRedriving]. A repetition after a crash may send a duplicate, a minute
// later at the earliest.
func (qs *Queues) Redrive(ctx context.Context, id string) (Poisoned, error) {
	row, err := qs.poisonRow(ctx, id)
	if err != nil {
		return Poisoned{}, err
	}
	p, err := tablestore.Decode(ctx, qs.poison, row, readPoisoned)
	if err != nil {
		return Poisoned{}, err
	}
	q := qs.byName[p.Queue]
	if q == nil {
		return p, fmt.Errorf("redrive %s: there is no queue %q", id, p.Queue)
	}
	if row, err = qs.claimRow(ctx, row); err != nil {
		return p, fmt.Errorf("redrive %s: %w", id, err)
	}
	item, err := workitem.Decode(p.Text)
	if err == nil {
		item.Reset()
		err = q.Send(ctx, item, 0)
	} else { // not readable here; a newer worker may be able to read it
		_, err = enqueue(ctx, q.client, p.Text, 0)
	}
	if err != nil {
		return p, fmt.Errorf("redrive %s: %w", id, err)
	}
	if err := q.poison.forget(ctx, row); err != nil {
		return p, fmt.Errorf("redrive %s: %w", id, err)
	}
	qs.sent(p.Queue)
	return p, nil
}

// claimRow marks a row as being redriven by this caller alone.
func (qs *Queues) claimRow(ctx context.Context, row tablestore.Entity) (tablestore.Entity, error) {
	if time.Since(row.Time(redriving)) < redriveTakes {
		return row, ErrRedriving
	}
	row.Props[redriving] = time.Now().UTC()
	etag, err := qs.poison.Update(ctx, row, row.ETag)
	if errors.Is(err, tablestore.ErrChanged) || errors.Is(err, tablestore.ErrNotFound) {
		err = ErrRedriving
	}
	row.ETag = etag
	return row, err
}

// DiscardPoison removes a poison item for good. A missing one is no error.
func (qs *Queues) DiscardPoison(ctx context.Context, id string) error {
	row, err := qs.poisonRow(ctx, id)
	if errors.Is(err, ErrNoPoison) {
		return nil
	}
	if err != nil {
		return err
	}
	box := &poisonBox{account: qs.account, table: qs.poison, queue: qs.account.Queue(PoisonName(row.PartitionKey))}
	if q := qs.byName[row.PartitionKey]; q != nil {
		box = q.poison
	}
	if err := box.forget(ctx, row); err != nil {
		return fmt.Errorf("discard %s: %w", id, err)
	}
	return nil
}

// forget removes the copy and then the row. A copy that another tool has received or
// deleted is left to that tool.
func (b *poisonBox) forget(ctx context.Context, row tablestore.Entity) error {
	if err := b.removeCopy(ctx, row); err != nil {
		return err
	}
	err := b.table.Delete(ctx, row.PartitionKey, row.RowKey, "*")
	if errors.Is(err, tablestore.ErrNotFound) || azstorage.IsNotFound(err) {
		return nil
	}
	return err
}

// removeCopy deletes the message that a row names in the poison queue, if it names one.
func (b *poisonBox) removeCopy(ctx context.Context, row tablestore.Entity) error {
	id := row.String(copyID)
	if id == "" {
		return nil
	}
	if _, err := b.queue.DeleteMessage(ctx, id, row.String(copyReceipt), nil); err != nil && !refused(err) {
		return err
	}
	return nil
}

// poisonID is the name of a queue and a message's id, which the service makes.
var poisonID = regexp.MustCompile(`^[a-z0-9-]{3,63}~[0-9A-Za-z-]{1,64}$`)

func (qs *Queues) poisonRow(ctx context.Context, id string) (tablestore.Entity, error) {
	queue, message, _ := strings.Cut(id, "~")
	if !poisonID.MatchString(id) {
		return tablestore.Entity{}, fmt.Errorf("poisoned item %q: %w", id, ErrNoPoison)
	}
	row, err := qs.poison.Get(ctx, queue, message)
	if errors.Is(err, tablestore.ErrNotFound) {
		err = ErrNoPoison
	}
	if err != nil {
		return row, fmt.Errorf("poisoned item %q: %w", id, err)
	}
	return row, nil
}

func readPoisoned(row tablestore.Entity) (Poisoned, error) {
	return Poisoned{
		ID: row.PartitionKey + "~" + row.RowKey, Queue: row.PartitionKey, MessageID: row.RowKey,
		Reason: row.String("Reason"), History: row.String("History"),
		ItemID: row.String("ItemId"), Step: row.String("Step"), Subject: row.String("Subject"),
		Text: string(row.Bytes("Text")), Failures: row.Int("Failures"), DequeueCount: row.Int64("DequeueCount"),
		Inserted: row.Time("Inserted"), PoisonedAt: row.Time("PoisonedAt"),
	}, nil
}
