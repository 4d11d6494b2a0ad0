package videostore

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// inflightShards is the number of partitions of table "inflight". The suffix is
// calculated from the id (paper row S3), so a mark needs no lookup and is a point
// write, and no partition is hot.
const inflightShards = 16

// Inflight is a mark: this video may have unfinished work.
type Inflight struct {
	ID    video.ID
	Since time.Time // when the mark was last renewed
	// Indexed is the UpdatedAt of the META that the index step read last. Zero when it
	// has not run since the mark was renewed.
	Indexed time.Time
	// Awaits: nothing was promised and no key given, the video waits for its upload.
	// Every promise, and the first key, renews the mark first, and that clears Awaits.
	Awaits bool
	// Erased: the video was purged. The mark stays for a while, because a late worker
	// may still insert a row: see Sweep.
	Erased bool
	// Owner is whose quota counts the video.
	Owner string
	// ETag changes whenever the mark does.
	ETag string

	gaveUp map[string]time.Time // by step: UpdatedAt of META when its item became poison
}

// GaveUp reports whether the item of a step without rows became poison, and META has
// not changed since.
func (m Inflight) GaveUp(step string, meta video.Video) bool {
	at, found := m.gaveUp[step]
	return found && at.Equal(meta.UpdatedAt)
}

// gaveUpProperty is the property of a mark that says when the item of a step without
// rows became poison: "IndexGaveUp".
func gaveUpProperty(step string) string {
	return strings.ToUpper(step[:1]) + step[1:] + "GaveUp"
}

func inflightPartition(id video.ID) string {
	h := fnv.New32a()
	h.Write([]byte(id))
	return fmt.Sprintf("%02d", h.Sum32()%inflightShards)
}

// MarkInflight marks a video before its work is promised, or keys are given for its upload.
// In this order a crash leaves a mark without work, which the reconciler removes. In the
// other order it would leave work, or blobs, that the reconciler cannot find. Safe to
// repeat.
func (s *Store) MarkInflight(ctx context.Context, v video.Video) error {
	return s.putInflight(ctx, v.ID, map[string]any{"Owner": v.Owner})
}

// putInflight replaces the mark and everything that it says.
func (s *Store) putInflight(ctx context.Context, id video.ID, props map[string]any) error {
	props["Since"] = now()
	_, err := s.inflight.Upsert(ctx, tablestore.Entity{PartitionKey: inflightPartition(id), RowKey: string(id), Props: props})
	if err != nil {
		return fmt.Errorf("mark video %s in flight: %w", id, err)
	}
	return nil
}

// markCreated marks a video that is about to be inserted. A mark that exists is of an
// earlier call, whose video may have work by now, so it is renewed without Awaits. etag
// is that of a new mark, else empty.
func (s *Store) markCreated(ctx context.Context, v video.Video) (etag string, _ error) {
	etag, err := s.inflight.Insert(ctx, tablestore.Entity{
		PartitionKey: inflightPartition(v.ID), RowKey: string(v.ID),
		Props: map[string]any{"Since": now(), "Awaits": v.State == video.AwaitingUpload, "Owner": v.Owner},
	})
	if errors.Is(err, tablestore.ErrExists) {
		return "", s.MarkInflight(ctx, v)
	}
	if err != nil {
		return "", fmt.Errorf("mark video %s in flight: %w", v.ID, err)
	}
	return etag, nil
}

// markAtRest is MarkInflight for work that does not change META. A video without a mark
// is settled: the index step has followed its META, and the new mark says so. A mark
// that exists keeps what it says about the index step.
func (s *Store) markAtRest(ctx context.Context, rec Record) error {
	id := rec.Video.ID
	row := tablestore.Entity{PartitionKey: inflightPartition(id), RowKey: string(id)}
	for {
		row.Props = map[string]any{"Since": now(), "Indexed": rec.Video.UpdatedAt.UTC(), "Owner": rec.Video.Owner}
		_, err := s.inflight.Insert(ctx, row)
		if errors.Is(err, tablestore.ErrExists) {
			row.Props = map[string]any{"Since": now(), "Awaits": false, "Erased": false}
			_, err = s.inflight.Merge(ctx, row, tablestore.AnyETag)
		}
		if errors.Is(err, tablestore.ErrNotFound) {
			continue // settled meanwhile
		}
		if err != nil {
			return fmt.Errorf("mark video %s in flight: %w", id, err)
		}
		return nil
	}
}

// Inflight lists the marks: one small partition after the other. Only the leader's
// reconciler should call it. Its cost grows with the work in progress, not with the
// number of videos. An error ends the sequence.
func (s *Store) Inflight(ctx context.Context) iter.Seq2[Inflight, error] {
	return func(yield func(Inflight, error) bool) {
		for shard := range inflightShards {
			query := tablestore.Query{PartitionKey: fmt.Sprintf("%02d", shard), Class: tablestore.RowRange}
			for row, err := range s.inflight.Query(ctx, query) {
				if err != nil {
					yield(Inflight{}, fmt.Errorf("list videos in flight: %w", err))
					return
				}
				if !yield(readInflight(row), nil) {
					return
				}
			}
		}
	}
}

func readInflight(row tablestore.Entity) Inflight {
	m := Inflight{
		ID: video.ID(row.RowKey), Since: row.Time("Since"), Indexed: row.Time("Indexed"),
		Awaits: row.Bool("Awaits"), Erased: row.Bool("Erased"), Owner: row.String("Owner"), ETag: row.ETag, gaveUp: map[string]time.Time{},
	}
	for _, stage := range []workflow.Stage{workflow.OnChange, workflow.OnDelete} {
		step := workflow.OnlyStepIn(stage).Name
		if at := row.Time(gaveUpProperty(step)); !at.IsZero() {
			m.gaveUp[step] = at
		}
	}
	return m
}

// GaveUp writes into the mark that the item of a step without rows becomes poison. The
// reconciler then does not send it again until META changes. A video without a mark or
// without META needs no note. Safe to repeat.
func (s *Store) GaveUp(ctx context.Context, id video.ID, step string) error {
	rec, err := s.Get(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = s.inflight.Merge(ctx, tablestore.Entity{
		PartitionKey: inflightPartition(id), RowKey: string(id),
		Props: map[string]any{gaveUpProperty(step): rec.Video.UpdatedAt.UTC()},
	}, tablestore.AnyETag)
	if err != nil && !isStale(err) {
		return fmt.Errorf("note that %s of %s gave up: %w", step, id, err)
	}
	return nil
}

// MarkIndexed writes into the mark that catalogue and search follow the META of
// updatedAt. It does nothing when the mark is gone, or was renewed meanwhile, because
// there is newer work then. Safe to repeat.
func (s *Store) MarkIndexed(ctx context.Context, id video.ID, updatedAt time.Time) error {
	row, err := s.inflight.Get(ctx, inflightPartition(id), string(id))
	if errors.Is(err, tablestore.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the mark of %s: %w", id, err)
	}
	row.Props = map[string]any{"Indexed": updatedAt.UTC()} // merged, because a purge may have written Erased
	if _, err := s.inflight.Merge(ctx, row, row.ETag); err != nil && !isStale(err) {
		return fmt.Errorf("mark %s as indexed: %w", id, err)
	}
	return nil
}

// ClearInflight removes a mark unless it was renewed since it was read, because then there is
// new work. Safe to repeat.
func (s *Store) ClearInflight(ctx context.Context, m Inflight) error {
	err := s.inflight.Delete(ctx, inflightPartition(m.ID), string(m.ID), m.ETag)
	if err != nil && !isStale(err) {
		return fmt.Errorf("settle video %s: %w", m.ID, err)
	}
	return nil
}
