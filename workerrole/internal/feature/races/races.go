// Package races makes the videos of races follow videos.
package races

import (
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/registrations"
	"github.com/cutroom/cutroom/workerrole/internal/step"
)

// New returns the feature.
func New(a *azstore.Account) step.Feature {
	store := registrations.New(a)
	return step.Feature{Tables: []string{registrations.Table}, Index: store.Sync, Purge: store.Remove}
}
