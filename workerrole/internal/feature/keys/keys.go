// Package keys forgets sessions that have ended.
package keys

import (
	"context"
	"time"

	"github.com/cutroom/cutroom/shared/apikeys"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/engine/upkeep"
	"github.com/cutroom/cutroom/workerrole/internal/step"
)

// New returns the feature.
func New(a *azstore.Account) step.Feature {
	keys := apikeys.New(a)
	return step.Feature{
		Tables: []string{apikeys.Table},
		Duties: []upkeep.Duty{{Name: "forget ended sessions", Every: time.Hour, Do: func(ctx context.Context) (int, error) {
			return keys.ForgetSessions(ctx, time.Now())
		}}},
	}
}
