package tablestore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/cutroom/cutroom/shared/azstore"
)

// ErrUnreadable says that a row is there and is not what its reader wants: it is
// damaged, or of a later release.
var ErrUnreadable = errors.New("row cannot be read")

// UnreadableTable is the base name of the table of rows that could not be read, by table and
// hash of their keys. Rows are written only when something is broken, and only where the table
// exists: see azstore.Account.Ensure.
const UnreadableTable = "unreadable"

const (
	maxReason = 1000 // bytes
	// noteWithin bounds the write of a note, which is beside the work of the caller.
	noteWithin = 3 * time.Second
)

// Decode decodes a row of t. When that fails, also because of Entity.Err, the row is
// reported and the error is ErrUnreadable. To report is to count the row each time, and
// to log each version of it and note it in UnreadableTable once.
func Decode[T any](ctx context.Context, t *Table, row Entity, decode func(Entity) (T, error)) (T, error) {
	value, err := decode(row)
	return value, t.judge(ctx, row, err)
}

// Into returns a Query.Read that appends what decode makes of each row to dst.
func Into[T any](dst *[]T, decode func(Entity) (T, error)) func(Entity) error {
	return func(row Entity) error {
		value, err := decode(row)
		if err = cmp.Or(err, row.Err()); err == nil {
			*dst = append(*dst, value)
		}
		return err
	}
}

// judge reports a row whose decoding ended with err, or whose getters met a mistake.
func (t *Table) judge(ctx context.Context, row Entity, err error) error {
	err = cmp.Or(err, row.Err())
	if err == nil {
		return nil
	}
	t.report(ctx, row, err)
	return fmt.Errorf("row %q/%q of table %s: %w: %w", row.PartitionKey, row.RowKey, t.base, ErrUnreadable, err)
}

func (t *Table) report(ctx context.Context, row Entity, cause error) {
	t.account.CountUnreadable(t.base, 1)
	version := row.PartitionKey + "\x00" + row.RowKey + "\x00" + row.ETag
	if _, known := t.reported.LoadOrStore(version, true); known {
		return
	}
	slog.ErrorContext(ctx, "a row cannot be read", "table", t.base, "partition", row.PartitionKey, "row", row.RowKey, "reason", cause)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteWithin)
	defer cancel()
	hash := sha256.Sum256([]byte(row.PartitionKey + "\x00" + row.RowKey))
	_, err := New(t.account, UnreadableTable).Upsert(ctx, Entity{PartitionKey: t.base, RowKey: hex.EncodeToString(hash[:16]), Props: Props(Unreadable{
		PartitionKey: row.PartitionKey, RowKey: row.RowKey, ETag: row.ETag, Reason: azstore.Storable(cause.Error(), maxReason), SeenAt: time.Now(),
	})})
	if err != nil && !azstore.HasCode(err, aztables.TableNotFound) { // a program without the table wants no notes
		t.reported.Delete(version) // the next reader tries again
		slog.WarnContext(ctx, "a row that cannot be read is not noted", "error", err)
	}
}

// Unreadable is a row that could not be read.
type Unreadable struct {
	ID           string    `row:"-" json:"id"` // "<table>~<hash of the keys>"
	Table        string    `row:"-" json:"table"`
	PartitionKey string    `row:"Partition" json:"partitionKey"`
	RowKey       string    `row:"Row" json:"rowKey"`
	ETag         string    `row:"Version" json:"-"` // that could not be read
	Reason       string    `json:"reason"`
	SeenAt       time.Time `json:"seenAt"` // when the latest process noted it
}

// UnreadableRows is what UnreadableTable holds. It is safe for concurrent use.
type UnreadableRows struct{ notes *Table }

// OpenUnreadable returns the unreadable rows of an account.
func OpenUnreadable(a *azstore.Account) *UnreadableRows {
	return &UnreadableRows{New(a, UnreadableTable)}
}

func readNote(note Entity) (Unreadable, error) {
	row := Unreadable{ID: note.PartitionKey + "~" + note.RowKey, Table: note.PartitionKey}
	err := note.Struct(&row)
	return row, err
}

// List returns a page of unreadable rows, ordered by table, and the token of the next
// one: a scan of a small table (T5), and a point read for each. A row that has gone or changed
// since is forgotten. limit is from 1 to 1000.
func (u *UnreadableRows) List(ctx context.Context, limit int, token string) (rows []Unreadable, next string, err error) {
	var noted []Unreadable
	_, next, err = u.notes.Page(ctx, Query{PageSize: int32(limit), Class: Scan, Read: Into(&noted, readNote)}, token)
	if err != nil {
		return nil, "", fmt.Errorf("list unreadable rows: %w", err)
	}
	for _, row := range noted {
		etag, err := u.version(ctx, row)
		if err == nil && etag != row.ETag {
			err = u.forget(ctx, row)
		} else if err == nil {
			rows = append(rows, row)
		}
		if err != nil {
			return nil, "", fmt.Errorf("list unreadable rows: %w", err)
		}
	}
	return rows, next, nil
}

// version is the row's ETag now, or empty when it is gone.
func (u *UnreadableRows) version(ctx context.Context, row Unreadable) (string, error) {
	reply, err := u.notes.account.Table(row.Table).GetEntity(ctx, row.PartitionKey, row.RowKey, nil)
	if azstore.HasCode(err, aztables.ResourceNotFound, aztables.EntityNotFound) {
		return "", nil
	}
	return string(reply.ETag), err
}

// Get returns an unreadable row by its ID, or ErrNotFound.
func (u *UnreadableRows) Get(ctx context.Context, id string) (Unreadable, error) {
	table, hash, _ := strings.Cut(id, "~")
	if errors.Is(checkKeys(table, hash), ErrLimit) {
		return Unreadable{}, fmt.Errorf("unreadable row %q: %w", id, ErrNotFound)
	}
	note, err := u.notes.Get(ctx, table, hash)
	if err != nil {
		return Unreadable{}, fmt.Errorf("unreadable row %q: %w", id, err)
	}
	return Decode(ctx, u.notes, note, readNote)
}

// Delete removes an unreadable row for good. ErrChanged when it has changed since. Safe to
// repeat.
func (u *UnreadableRows) Delete(ctx context.Context, row Unreadable) error {
	if err := New(u.notes.account, row.Table).Delete(ctx, row.PartitionKey, row.RowKey, row.ETag); err != nil {
		return err
	}
	return u.forget(ctx, row)
}

func (u *UnreadableRows) forget(ctx context.Context, row Unreadable) error {
	table, hash, _ := strings.Cut(row.ID, "~")
	return u.notes.Delete(ctx, table, hash, AnyETag)
}
