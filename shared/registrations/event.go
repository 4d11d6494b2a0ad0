package registrations

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/visible"
)

// Event is a race over one distance: the PartitionKey of its rows, made by
// ParseEvent. Safe to compare.
type Event string

// ParseEvent reads the text that people write, "<event>__<distance>": exactly
// two fields, each of them something, joined by two underscores (row S1). The
// fields are escaped for the key, which leaves the usual ones as they are. The
// error is an *Invalid with code InvalidEvent.
func ParseEvent(text string) (Event, error) {
	fields := strings.Split(text, tablestore.Separator)
	if len(fields) != 2 || !utf8.ValidString(text) || !visible.Is(text, "") {
		return "", errEvent
	}
	for _, f := range fields {
		// "A___B" could be read in two ways, and blanks at the ends are not seen.
		if f == "" || f != strings.Trim(f, "_") || f != strings.TrimSpace(f) {
			return "", errEvent
		}
	}
	key := tablestore.Join(fields...)
	if utf8.RuneCountInString(key) > tablestore.MaxKeyUnits { // keys have no characters of two units
		return "", invalid(InvalidEvent, "the text is too long")
	}
	return Event(key), nil
}

// UnmarshalText is ParseEvent for an address that names an event.
func (e *Event) UnmarshalText(text []byte) (err error) {
	*e, err = ParseEvent(string(text))
	return err
}

var errEvent = invalid(InvalidEvent, "want event and distance, joined by two underscores: 2011 New York City Marathon__Full")

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
// them: one row range. limit is from 1 to 1000; next continues it and is empty at the
// end. tablestore.ErrToken.
func (s *Store) Events(ctx context.Context, limit int, token string) (events []string, next string, err error) {
	_, next, err = s.rows.Page(ctx, tablestore.Query{
		PartitionKey: eventsKey, PageSize: int32(limit), Class: tablestore.RowRange,
		Read: tablestore.Into(&events, func(row tablestore.Entity) (string, error) { return tablestore.UnescapeKey(row.RowKey) }),
	}, token)
	if err != nil {
		return nil, "", fmt.Errorf("list events: %w", err)
	}
	return events, next, nil
}
