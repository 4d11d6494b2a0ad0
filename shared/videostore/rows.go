package videostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

func planKey(generation int) string { return fmt.Sprintf("PLAN:%05d", generation) }

func partKey(key workflow.Key, first int) string {
	return fmt.Sprintf("PART:%05d:%s:%05d", key.Generation, key.Step, first)
}

// now is the time in microseconds. A table keeps 100 ns and JSON more, and what is read
// from both must compare as equal.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// written is the operation that writes a row over the version that was read; there was none if
// etag is empty.
func written(row tablestore.Entity, etag string) tablestore.Op {
	if etag == "" {
		return tablestore.Op{Kind: tablestore.OpInsert, Entity: row}
	}
	return tablestore.Op{Kind: tablestore.OpReplace, Entity: row, IfMatch: etag}
}

// Plan reads the plan of a generation: a point read, or none when the plan is in memory.
// ErrGone when there is no plan.
func (s *Store) Plan(ctx context.Context, id video.ID, generation int) (video.Plan, error) {
	if plan, found := s.plans.Get(planID{id, generation}); found {
		return plan, nil
	}
	row, err := s.videos.Get(ctx, string(id), planKey(generation))
	if errors.Is(err, tablestore.ErrNotFound) {
		return video.Plan{}, ErrGone
	}
	if err != nil {
		return video.Plan{}, fmt.Errorf("read plan of %s: %w", id, err)
	}
	plan, err := tablestore.Decode(ctx, s.videos, row, readPlan)
	if err != nil {
		return video.Plan{}, fmt.Errorf("decode plan of %s: %w", id, err)
	}
	s.plans.Add(planID{id, generation}, plan)
	return plan, nil
}

func partRow(step Step, part video.AudioPart) tablestore.Entity {
	return tablestore.Entity{PartitionKey: string(step.Key.ID), RowKey: partKey(step.Key, part.First), Props: tablestore.Props(struct {
		Doc     video.AudioPart
		Attempt string
	}{part, step.Attempt})}
}

func planRow(id video.ID, plan video.Plan) tablestore.Entity {
	return tablestore.Entity{PartitionKey: string(id), RowKey: planKey(plan.Generation), Props: tablestore.Props(struct{ Doc video.Plan }{plan})}
}

func readPlan(row tablestore.Entity) (plan video.Plan, _ error) {
	err := row.JSON("Doc", &plan)
	return plan, err
}
