// Package viewcount sums the views of days that have ended.
package viewcount

import (
	"context"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/engine/upkeep"
	"github.com/cutroom/cutroom/shared/views"
	"github.com/cutroom/cutroom/workerrole/internal/step"
)

// New returns the feature.
func New(a *azstore.Account, n step.Needs) step.Feature {
	counter := views.New(a)
	return step.Feature{
		Tables: []string{views.Table}, Purge: counter.Remove,
		Duties: []upkeep.Duty{{Name: "sum views", Every: 10 * time.Minute, Do: func(ctx context.Context) (int, error) {
			return 0, counter.RollUp(ctx, time.Now(), n.Videos.Exists)
		}}},
	}
}
