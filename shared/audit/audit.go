// Package audit is the log of changes: the caller, the time and the origin of each, in table
// "audit" of docs/data-model.md, newest first. Rows are inserted and never changed. A change has
// two: one before it, and one that says what was answered. No row has content, a secret, or more
// of an address than the rate limit knows.
package audit

import (
	"cmp"
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// Table is the table's base name.
const Table = "audit"

// Entry is one row.
type Entry struct {
	At      time.Time `json:"at" row:"-"`
	Owner   string    `json:"owner"` // the caller; empty: unknown
	Role    string    `json:"role"`
	Key     string    `json:"key,omitempty"`    // id of the API key that was shown; empty: another way
	From    string    `json:"from"`             // network of the client
	Action  string    `json:"action"`           // method and route: "DELETE /api/v1/videos/:id"
	Subject string    `json:"subject"`          // what the route's parameters name: "id=jbumacds…"
	Request string    `json:"requestId"`        // id of the request, as in the log
	Status  int       `json:"status,omitempty"` // of the answer; 0 in the row from before
	Made    string    `json:"made,omitempty"`   // address of what was made, of the row from after
}

// Log is safe for concurrent use.
type Log struct{ table *tablestore.Table }

// New returns the audit log of an account.
func New(a *azstore.Account) *Log { return &Log{tablestore.New(a, Table)} }

func dayKey(t time.Time) string { return tablestore.InvertedTime(t.UTC().Truncate(24 * time.Hour)) }

// Write inserts an entry, of now.
func (t *Log) Write(ctx context.Context, e Entry) error {
	at := time.Now()
	e.Subject, e.Made = azstore.Storable(e.Subject, maxText), azstore.Storable(e.Made, maxText)
	_, err := t.table.Insert(ctx, tablestore.Entity{
		PartitionKey: dayKey(at), RowKey: tablestore.InvertedTime(at) + tablestore.Separator + strings.ToLower(rand.Text()[:8]),
		Props: tablestore.Props(e),
	})
	return err
}

// maxText is the longest text of an entry that a client chose, in UTF-16 units. A row that is
// refused would refuse the request with 500 instead of its own code.
const maxText = 1024

// List returns a page of at most limit entries, 1 to 1000, newest first: a range of
// partitions (T5), for operators. next continues it and is empty at the end;
// tablestore.ErrToken for a token that is not ours.
func (t *Log) List(ctx context.Context, limit int, token string) (entries []Entry, next string, _ error) {
	query := allDays()
	query.PageSize, query.Read = int32(limit), tablestore.Into(&entries, readEntry)
	_, next, err := t.table.Page(ctx, query, token)
	return entries, next, err
}

// allDays selects every entry: the keys of days are digits.
func allDays() tablestore.Query {
	return tablestore.Query{PartitionFrom: "0", PartitionTo: ":", Class: tablestore.PartitionRange}
}

func readEntry(row tablestore.Entity) (e Entry, err error) {
	inverted, _, _ := strings.Cut(row.RowKey, tablestore.Separator)
	e.At, err = tablestore.ParseInvertedTime(inverted)
	return e, cmp.Or(err, row.Struct(&e))
}

// Forget removes the days that ended before a time, and returns how many rows went. Safe
// to repeat.
func (t *Log) Forget(ctx context.Context, before time.Time) (removed int, _ error) {
	query := allDays()
	query.PartitionFrom = dayKey(before.AddDate(0, 0, -1))
	return t.table.Clear(ctx, query)
}
