package apikeys

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

const signedOut = "SIGNEDOUT"

// SignOut ends a session for every copy of its cookie. session is the id in the cookie;
// until is when the cookie ends by itself. Safe to repeat.
func (s *Store) SignOut(ctx context.Context, session string, until time.Time) error {
	_, err := s.table.Upsert(ctx, tablestore.Entity{PartitionKey: session, RowKey: signedOut, Props: map[string]any{"Until": until.UTC()}})
	if err != nil {
		return fmt.Errorf("end a session: %w", err)
	}
	return nil
}

// SignedOut reports whether a session was ended: a point read.
func (s *Store) SignedOut(ctx context.Context, session string) (bool, error) {
	_, err := s.table.Get(ctx, session, signedOut)
	if errors.Is(err, tablestore.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read whether a session has ended: %w", err)
	}
	return true, nil
}

// ForgetSessions removes the notes of sessions that would have ended before now, and
// returns how many. It scans the table. Safe to repeat.
func (s *Store) ForgetSessions(ctx context.Context, now time.Time) (removed int, _ error) {
	removed, err := s.table.Clear(ctx, tablestore.Query{
		Class: tablestore.Scan, Filter: "RowKey eq '" + signedOut + "' and Until le datetime'" + now.UTC().Format(time.RFC3339Nano) + "'",
	})
	if err != nil {
		return removed, fmt.Errorf("forget sessions that have ended: %w", err)
	}
	return removed, nil
}
