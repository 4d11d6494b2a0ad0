package upkeep

import (
	"context"
	"errors"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/engine"
)

// Redrive sends a poison item to its queue again: see azq.Client.Redrive. A step whose failure
// failed its subject would find itself unwanted, so the subject is taken up again instead, which
// sends the step along with what else is missing.
func Redrive[V, P any](ctx context.Context, store *engine.Store[V, P], queues *azq.Client, poisonID string) error {
	item, err := queues.GetPoison(ctx, poisonID)
	if err != nil {
		return err
	}
	step, _ := store.Find(item.Kind)
	if id, err := engine.ParseID(item.Subject); err == nil && step.HasRows() && !step.IsOptional() {
		now, err := store.Get(ctx, id)
		if err != nil && !errors.Is(err, engine.ErrNotFound) {
			return err
		}
		if err == nil && now.Meta().State == engine.Failed {
			if _, err := store.Retry(ctx, id); err != nil {
				return err
			}
			return queues.DiscardPoison(ctx, poisonID)
		}
	}
	_, err = queues.Redrive(ctx, poisonID)
	return err
}
