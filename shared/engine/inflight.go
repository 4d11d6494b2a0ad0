package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// inflightShards is the number of partitions of table "inflight". The suffix is calculated
// from the id (paper row S3), so a mark is a point write, and no partition is hot.
const inflightShards = 16

// Inflight is a mark: this subject may have unfinished work.
type Inflight struct {
	ID    ID        `row:"-"`
	Since time.Time // when the mark was last renewed
	// Indexed is the UpdatedAt of the META that the index step read last. Zero when it
	// has not run since the mark was renewed.
	Indexed time.Time
	// Awaits: nothing was promised and no key given, the subject waits for its upload.
	// Every promise, and the first key, renews the mark first, and that clears Awaits.
	Awaits bool
	// Erased: the subject was purged. The mark stays for a while, because a late worker
	// may still insert a row: see Store.Erase.
	Erased bool
	// Owner is whose quota counts the subject, and CreatedAt is in the key of its line.
	Owner     string
	CreatedAt time.Time
	// Poison is the item of a step without rows that became poison last: see GaveUp.
	Poison string
	// ETag changes whenever the mark does.
	ETag string `row:"-"`
}

// GaveUp reports whether the item of a step without rows became poison, and META has
// not changed since.
func (m Inflight) GaveUp(step string, meta Meta) bool { return m.Poison == poisoned(step, meta) }

func poisoned(step string, meta Meta) string {
	return step + " of " + meta.UpdatedAt.UTC().Format(time.RFC3339Nano)
}

func inflightPartition(id ID) string {
	return fmt.Sprintf("%02d", tablestore.Shard(string(id), inflightShards))
}

func (m Inflight) row() tablestore.Entity {
	return tablestore.Entity{PartitionKey: inflightPartition(m.ID), RowKey: string(m.ID), Props: tablestore.Props(m)}
}

// MarkInflight marks a subject before its work is promised, or keys are given for its upload.
// In this order a crash leaves a mark without work, which the reconciler removes. In the
// other order it would leave work, or blobs, that it cannot find. Safe to repeat.
func (s *Store[V, P]) MarkInflight(ctx context.Context, m Meta) error {
	return s.mark(ctx, markOf(m))
}

func markOf(m Meta) Inflight {
	return Inflight{ID: m.ID, Owner: m.Owner, CreatedAt: m.CreatedAt}
}

// mark replaces a mark and everything that it says.
func (s *Store[V, P]) mark(ctx context.Context, m Inflight) error {
	m.Since = Now()
	_, err := s.inflight.Upsert(ctx, m.row())
	return err
}

// markAtRest is MarkInflight for work that does not change META. A subject without a mark
// is settled: the index step has followed its META, and the new mark says so. A mark
// that exists keeps what it says about the index step.
func (s *Store[V, P]) markAtRest(ctx context.Context, meta Meta) error {
	m := markOf(meta)
	m.Since, m.Indexed = Now(), meta.UpdatedAt
	renewed := m.row()
	renewed.Props = map[string]any{"Since": m.Since, "Awaits": false, "Erased": false}
	_, err := s.inflight.Merge(ctx, renewed, tablestore.AnyETag)
	if errors.Is(err, tablestore.ErrNotFound) { // over a mark that is written meanwhile, too: META has changed then
		_, err = s.inflight.Upsert(ctx, m.row())
	}
	return err
}

// Inflight lists the marks: one small partition after the other. Its cost grows with the work
// in progress, not with the number of subjects. An error ends the sequence.
func (s *Store[V, P]) Inflight(ctx context.Context) iter.Seq2[Inflight, error] {
	return func(yield func(Inflight, error) bool) {
		for shard := range inflightShards {
			query := tablestore.Query{PartitionKey: fmt.Sprintf("%02d", shard), Class: tablestore.RowRange}
			for row, err := range s.inflight.Query(ctx, query) {
				if !yield(readInflight(row), err) || err != nil {
					return
				}
			}
		}
	}
}

// readInflight reads what can be read: a mark is a hint, which no damage may hide.
func readInflight(row tablestore.Entity) Inflight {
	m := Inflight{ID: ID(row.RowKey), ETag: row.ETag}
	_ = row.Struct(&m)
	return m
}

// InflightMark reads the mark of a subject; it is zero but for the id when there is none.
func (s *Store[V, P]) InflightMark(ctx context.Context, id ID) (Inflight, error) {
	row, err := s.inflight.Get(ctx, inflightPartition(id), string(id))
	row.RowKey = string(id)
	return readInflight(row), tablestore.IgnoreNotFound(err)
}

// noteInflight writes one property of a mark. It does nothing when the mark is gone, or is
// not of the version m.ETag.
func (s *Store[V, P]) noteInflight(ctx context.Context, m Inflight, property string, value any) error {
	row := m.row()
	row.Props = map[string]any{property: value}
	_, err := s.inflight.Merge(ctx, row, m.ETag)
	if tablestore.Overtaken(err) {
		return nil
	}
	return err
}

// GaveUp writes into the mark that the item of a step without rows becomes poison. The
// reconciler then does not send it again until META changes. Safe to repeat.
func (s *Store[V, P]) GaveUp(ctx context.Context, id ID, step string) error {
	rec, err := s.Get(ctx, id)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	return s.noteInflight(ctx, Inflight{ID: id, ETag: tablestore.AnyETag}, "Poison", poisoned(step, rec.Meta()))
}

// MarkIndexed writes into a mark that catalogue, search and quotas follow the META of
// updatedAt. It does nothing when there was no mark, or when it was renewed since it was read:
// then there is newer work. Safe to repeat.
func (s *Store[V, P]) MarkIndexed(ctx context.Context, m Inflight, updatedAt time.Time) error {
	if m.ETag == "" {
		return nil
	}
	return s.noteInflight(ctx, m, "Indexed", updatedAt.UTC())
}

// ClearInflight removes a mark unless it was renewed since it was read, because then there is
// new work. Safe to repeat.
func (s *Store[V, P]) ClearInflight(ctx context.Context, m Inflight) error {
	err := s.inflight.Delete(ctx, inflightPartition(m.ID), string(m.ID), m.ETag)
	if errors.Is(err, tablestore.ErrChanged) {
		return nil
	}
	return err
}
