// Package search makes the search index follow videos.
package search

import (
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/workerrole/internal/step"
)

// New returns the feature.
func New(a *azstore.Account) step.Feature {
	index := searchindex.New(a)
	return step.Feature{Tables: searchindex.Tables, Index: index.Sync, Purge: index.Remove}
}
