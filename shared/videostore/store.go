package videostore

import (
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// Tables are all that the store keeps.
var Tables = []string{workflow.VideosTable, engine.InflightTable, engine.IdempotencyTable}

// The engine's types, of videos.
type (
	Record   = engine.Record[video.Video]
	View     = engine.View[video.Video, video.Plan]
	Claim    = engine.Claim[video.Video, video.Plan]
	Commit   = engine.Commit[video.Video, video.Plan]
	Observer = engine.Observer[video.Video, video.Plan]
)

// Store is the engine's store of videos, with what only videos have. Safe for concurrent use.
type Store struct {
	*engine.Store[video.Video, video.Plan]
	// Preview adds to what is committed what can be watched before that, and tells of which
	// chunks. By itself it adds nothing: see package previews.
	Preview func(View, playlist.Presentation) (shown playlist.Presentation, chunks map[int]bool, _ error)
}

// New returns a store on the account's tables, which must exist.
func New(a *azstore.Account, sender engine.Sender) *Store {
	s := &Store{Store: engine.New(a, sender, engine.Product[video.Video, video.Plan]{
		Declaration: workflow.Declaration, ItemVersion: workflow.ItemVersion, Promises: workflow.PromisesFor,
		DueWith: dueWith, Playable: playable,
		RowKinds: map[string]func(tablestore.Entity) error{},
	})}
	s.Preview = func(_ View, p playlist.Presentation) (playlist.Presentation, map[int]bool, error) { return p, nil, nil }
	return s
}

// dueWith lets a portion of sound be made while its upload goes on, when it ends before the
// chunks that are promised.
func dueWith(plan video.Plan, step engine.Step, index, promised int) bool {
	return step.Count == workflow.PerPortion && video.SoundStart(plan.Sound[index].End) <= plan.Start(promised)
}

// playable reports whether the first segments can be watched.
func playable(view View) (bool, error) {
	p, err := Presentation(view, view.Subject.Generation)
	return err == nil && p.Ready(), err
}
