package videostore

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
)

// inflightShards is the number of partitions of table "inflight": a suffix
// precalculated from the id, so that marking is a point write that needs no
// lookup and no partition is hot (paper row S3).
const inflightShards = 16

// Inflight names a video that may have unfinished work.
type Inflight struct {
	ID    video.ID
	Since time.Time // of the newest mark
	// Indexed is the UpdatedAt of the META that the index step has seen last;
	// zero when it has not run since the mark was renewed.
	Indexed time.Time
	etag    string
}

func inflightPartition(id video.ID) string {
	h := fnv.New32a()
	h.Write([]byte(id))
	return fmt.Sprintf("%02d", h.Sum32()%inflightShards)
}

// markInflight is always written before the change it announces: a mark without
// work is swept away, work without a mark would never be found.
func (s *Store) markInflight(ctx context.Context, id video.ID) error {
	_, err := s.inflight.Upsert(ctx, tablestore.Entity{
		PartitionKey: inflightPartition(id), RowKey: string(id),
		Props: map[string]any{"Since": now()},
	})
	if err != nil {
		return fmt.Errorf("mark video %s in flight: %w", id, err)
	}
	return nil
}

// markAtRest is markInflight for work that does not change META. A video without
// a mark is settled, so the lists and the search follow it already, and the mark
// says so; a mark that is there keeps what it says.
func (s *Store) markAtRest(ctx context.Context, rec Record) error {
	id := rec.Video.ID
	row := tablestore.Entity{PartitionKey: inflightPartition(id), RowKey: string(id)}
	for {
		row.Props = map[string]any{"Since": now(), "Indexed": rec.Video.UpdatedAt.UTC()}
		_, err := s.inflight.Insert(ctx, row)
		if errors.Is(err, tablestore.ErrExists) {
			delete(row.Props, "Indexed")
			_, err = s.inflight.Merge(ctx, row, tablestore.AnyETag)
		}
		if errors.Is(err, tablestore.ErrNotFound) {
			continue // settled this instant
		}
		if err != nil {
			return fmt.Errorf("mark video %s in flight: %w", id, err)
		}
		return nil
	}
}

// Inflight lists every marked video: one small partition at a time. It is for
// the elected reconciler only; its cost follows the work under way and not the
// size of the catalogue.
func (s *Store) Inflight(ctx context.Context) ([]Inflight, error) {
	var list []Inflight
	for shard := range inflightShards {
		rows, err := collect(s.inflight.Query(ctx, tablestore.Query{
			PartitionKey: fmt.Sprintf("%02d", shard), Class: tablestore.PartitionRange,
		}))
		if err != nil {
			return nil, fmt.Errorf("list videos in flight: %w", err)
		}
		for _, row := range rows {
			list = append(list, readInflight(row))
		}
	}
	return list, nil
}

func readInflight(row tablestore.Entity) Inflight {
	return Inflight{ID: video.ID(row.RowKey), Since: row.Time("Since"), Indexed: row.Time("Indexed"), etag: row.ETag}
}

// MarkIndexed notes in the video's mark that catalogue and search index follow
// the META that was written at updatedAt. A mark that is gone or was renewed
// meanwhile is left alone: then this was not the last word.
func (s *Store) MarkIndexed(ctx context.Context, id video.ID, updatedAt time.Time) error {
	row, err := s.inflight.Get(ctx, inflightPartition(id), string(id))
	if errors.Is(err, tablestore.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the mark of %s: %w", id, err)
	}
	row.Props = map[string]any{"Since": row.Time("Since"), "Indexed": updatedAt.UTC()}
	if _, err := s.inflight.Update(ctx, row, row.ETag); err != nil && !isStale(err) {
		return fmt.Errorf("mark %s as indexed: %w", id, err)
	}
	return nil
}

// Settle removes a mark, unless it was renewed since it was read: then there is
// new work, and the mark stays.
func (s *Store) Settle(ctx context.Context, m Inflight) error {
	err := s.inflight.Delete(ctx, inflightPartition(m.ID), string(m.ID), m.etag)
	if err != nil && !isStale(err) {
		return fmt.Errorf("settle video %s: %w", m.ID, err)
	}
	return nil
}
