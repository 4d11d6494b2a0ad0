// Package trail forgets old changes.
package trail

import (
	"context"
	"time"

	"github.com/cutroom/cutroom/shared/audit"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/engine/upkeep"
	"github.com/cutroom/cutroom/workerrole/internal/step"
)

// New returns the feature.
func New(a *azstore.Account, life time.Duration) step.Feature {
	trail := audit.New(a)
	return step.Feature{
		Tables: []string{audit.Table},
		Duties: []upkeep.Duty{{Name: "forget old changes", Every: time.Hour, Do: func(ctx context.Context) (int, error) {
			return trail.Forget(ctx, time.Now().Add(-life))
		}}},
	}
}
