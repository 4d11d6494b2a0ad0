package videostore

import (
	"context"
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
	etag  string
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
		Props: map[string]any{"Since": time.Now().UTC()},
	})
	if err != nil {
		return fmt.Errorf("mark video %s in flight: %w", id, err)
	}
	return nil
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
			list = append(list, Inflight{ID: video.ID(row.RowKey), Since: row.Time("Since"), etag: row.ETag})
		}
	}
	return list, nil
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
