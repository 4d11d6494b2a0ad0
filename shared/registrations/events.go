package registrations

import (
	"context"
	"fmt"

	"github.com/cutroom/cutroom/shared/tablestore"
)

// eventsKey is the partition of the list of events. No event has this name: it has no
// distance.
const eventsKey = "~events"

// NoteEvent puts an event on the list of events: one upsert. Safe to repeat.
func (s *Store) NoteEvent(ctx context.Context, event Event) error {
	_, err := s.rows.Upsert(ctx, tablestore.Entity{PartitionKey: eventsKey, RowKey: string(event)})
	if err != nil {
		return fmt.Errorf("note an event: %w", err)
	}
	return nil
}

// Events returns a page of the events that have a start list, by name, as people write
// them: one row range. limit is from 1 to MaxLimit; next continues it and is empty at the
// end. tablestore.ErrToken.
func (s *Store) Events(ctx context.Context, limit int, token string) (events []string, next string, err error) {
	_, next, err = s.rows.Page(ctx, tablestore.Query{
		PartitionKey: eventsKey, PageSize: int32(min(max(limit, 1), MaxLimit)), Class: tablestore.RowRange,
		Read: tablestore.Into(&events, func(row tablestore.Entity) (string, error) { return tablestore.UnescapeKey(row.RowKey) }),
	}, token)
	if err != nil {
		return nil, "", fmt.Errorf("list events: %w", err)
	}
	return events, next, nil
}
