// Package audit keeps who asked for which change, when, and from where: table "audit".
//
//	PartitionKey  the day of UTC, 2026-11-22 (some: a day is read, and removed, together)
//	RowKey        <inverted time>__<8 random characters>, so newest first
//	              Owner, Role, Key, From, Action, Subject, Status, Made, Request
//
// Rows are inserted and never changed. A change has two: one before it, and one that
// says what was answered. No row has content, a secret, or more of an address than the
// rate limit knows. PartitionKey DAYS has a row for each day that has rows, RowKey
// <99999999 − yyyyMMdd>, newest first.
package audit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/storable"
	"github.com/cutroom/cutroom/shared/tablestore"
)

// Table is the table's base name.
const Table = "audit"

const (
	daysKey = "DAYS"
	lastDay = 99_999_999
)

// Entry is one row.
type Entry struct {
	At      time.Time
	Owner   string // who; empty: nobody known
	Role    string
	Key     string // id of the API key that was shown; empty: another way
	From    string // network of the client
	Action  string // method and route: "DELETE /api/v1/videos/:id"
	Subject string // what the route's parameters name: "id=jbumacds…"
	Request string // id of the request, as in the log
	Status  int    // of the answer; 0 in the row from before
	Made    string // address of what was made, of the row from after
}

// Trail is safe for concurrent use.
type Trail struct {
	table *tablestore.Table
	days  sync.Map // string to struct{}: days that have their row already
}

// New returns the trail of an account.
func New(a *azstorage.Account) *Trail { return &Trail{table: tablestore.New(a.Table(Table))} }

func dayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

func dayRow(t time.Time) string {
	t = t.UTC()
	return tablestore.Pad(lastDay-int64(t.Year()*10000+int(t.Month())*100+t.Day()), 8)
}

// dayOfRow undoes dayRow.
func dayOfRow(rowKey string) (day string, ok bool) {
	n, err := strconv.Atoi(rowKey)
	t, bad := time.Parse("20060102", strconv.Itoa(lastDay-n))
	return dayOf(t), err == nil && bad == nil
}

func readDay(row tablestore.Entity) error {
	if _, ok := dayOfRow(row.RowKey); !ok {
		return errors.New("its key is no day")
	}
	return nil
}

// Write inserts an entry, of now. The row of the day comes first, so that no entry is
// in a day that nobody finds.
func (t *Trail) Write(ctx context.Context, e Entry) error {
	at := time.Now()
	if _, known := t.days.Load(dayOf(at)); !known {
		_, err := t.table.Insert(ctx, tablestore.Entity{PartitionKey: daysKey, RowKey: dayRow(at)})
		if err != nil && !errors.Is(err, tablestore.ErrExists) {
			return fmt.Errorf("open a day of the audit trail: %w", err)
		}
		t.days.Store(dayOf(at), struct{}{})
	}
	_, err := t.table.Insert(ctx, tablestore.Entity{
		PartitionKey: dayOf(at), RowKey: tablestore.InvertedTime(at) + tablestore.Separator + strings.ToLower(rand.Text()[:8]),
		Props: map[string]any{
			"Owner": e.Owner, "Role": e.Role, "Key": e.Key, "From": e.From, "Action": e.Action, "Subject": storable.Text(e.Subject, maxText),
			"Request": e.Request, "Status": int32(e.Status), "Made": storable.Text(e.Made, maxText),
		},
	})
	if err != nil {
		return fmt.Errorf("write the audit trail: %w", err)
	}
	return nil
}

// maxText is the longest text of an entry that a client chose, in UTF-16 units. A row that is
// refused would refuse the request with 500 instead of its own code.
const maxText = 1024

// List returns a page of at most limit entries, newest first: row ranges of the newest
// days (T5). next continues it and is empty at the end; tablestore.ErrToken for a token
// that is not ours.
func (t *Trail) List(ctx context.Context, limit int, token string) (entries []Entry, next string, _ error) {
	query := tablestore.Query{PartitionKey: daysKey, Class: tablestore.RowRange, Read: readDay}
	first, inner, resumed := strings.Cut(token, ".")
	if token != "" {
		if _, ok := dayOfRow(first); !ok || !resumed || len(first) != 8 {
			return nil, "", tablestore.ErrToken
		}
		query.RowFrom = first
	}
	for row, err := range t.table.Query(ctx, query) {
		if err != nil {
			return nil, "", fmt.Errorf("list days of the audit trail: %w", err)
		}
		day, _ := dayOfRow(row.RowKey)
		if row.RowKey != first {
			inner = "" // the token is of another day
		}
		for {
			if len(entries) == limit {
				return entries, row.RowKey + "." + inner, nil
			}
			page := tablestore.Query{
				PartitionKey: day, Class: tablestore.RowRange, PageSize: int32(limit - len(entries)), Read: tablestore.Into(&entries, readEntry),
			}
			_, more, err := t.table.Page(ctx, page, inner)
			if err != nil {
				return nil, "", fmt.Errorf("read the audit trail: %w", err)
			}
			if inner = more; more == "" {
				break
			}
		}
	}
	return entries, "", nil
}

func readEntry(row tablestore.Entity) (Entry, error) {
	inverted, _, _ := strings.Cut(row.RowKey, tablestore.Separator)
	at, err := tablestore.ParseInvertedTime(inverted)
	return Entry{
		At: at, Owner: row.String("Owner"), Role: row.String("Role"), Key: row.String("Key"), From: row.String("From"),
		Action: row.String("Action"), Subject: row.String("Subject"), Request: row.String("Request"), Status: row.Int("Status"), Made: row.String("Made"),
	}, err
}

// Forget removes the days that ended before a time, the oldest too, and returns how
// many rows went. A day's own row goes last, so that a process that is killed leaves a day that
// is found again. Safe to repeat.
func (t *Trail) Forget(ctx context.Context, before time.Time) (removed int, _ error) {
	for row, err := range t.table.Query(ctx, tablestore.Query{PartitionKey: daysKey, RowFrom: dayRow(before), Class: tablestore.RowRange, Read: readDay}) {
		if err != nil {
			return removed, fmt.Errorf("list days of the audit trail: %w", err)
		}
		day, _ := dayOfRow(row.RowKey)
		if day >= dayOf(before) {
			continue
		}
		gone, err := t.table.ClearPartition(ctx, day)
		removed += gone
		if err != nil {
			return removed, fmt.Errorf("remove %s of the audit trail: %w", day, err)
		}
		if err := t.table.Delete(ctx, daysKey, row.RowKey, row.ETag); err != nil && !errors.Is(err, tablestore.ErrNotFound) {
			return removed, fmt.Errorf("close %s of the audit trail: %w", day, err)
		}
	}
	return removed, nil
}
