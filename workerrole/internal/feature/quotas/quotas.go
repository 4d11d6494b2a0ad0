// Package quotas makes what is counted for owners follow videos.
package quotas

import (
	"context"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/indexrows"
	"github.com/cutroom/cutroom/shared/quotas"
	"github.com/cutroom/cutroom/workerrole/internal/step"
)

// New returns the feature. Workers refuse nothing: what they work on was let in.
func New(a *azstore.Account, n step.Needs) step.Feature {
	ledger := quotas.Open(a, n.Videos, quotas.Limits{})
	return step.Feature{
		Tables: []string{quotas.Table},
		Index: func(ctx context.Context, id engine.ID, _ indexrows.Current) error {
			return ledger.CountOwned(ctx, id)
		},
	}
}
