package videostore

import (
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// Observer is told what this process has committed, for metrics. A commit whose reply
// was lost is told when it is recognised. A process that dies between its commit and the
// call is not observed, so each thing is told once or not at all, and never twice. The
// functions must be quick and safe for concurrent use; each may be nil.
type Observer struct {
	// Video is told of every change of META by an edit or by the end of a step.
	Video func(before, after video.Video)
	// Attempt is told of every attempt whose end was written into its step's row, by
	// no matter who wrote it: that an attempt was lost is told by the next claim. The plan is
	// empty where it was not read.
	Attempt func(key workflow.Key, plan video.Plan, a Attempt)
}

// Observe sets the observer. Call it before the store is used.
func (s *Store) Observe(o Observer) { s.observer = o }

func (s *Store) notifyVideo(before, after video.Video) {
	if s.observer.Video != nil && !before.UpdatedAt.Equal(after.UpdatedAt) {
		s.observer.Video(before, after)
	}
}

// notifyAttempt tells of the attempt whose end is in the history of after and not in that
// of before.
func (s *Store) notifyAttempt(before, after Step, plan video.Plan) {
	if s.observer.Attempt == nil {
		return
	}
	was, is := before.history().Attempts, after.history().Attempts
	if n, m := len(is), len(was); n > 0 && (m == 0 || was[m-1].Number < is[n-1].Number) {
		s.observer.Attempt(after.Key, plan, is[n-1])
	}
}
