package videostore_test

import (
	"errors"
	"testing"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// The gate of these tests. No step of ours is one, but a fork's may be.
const stepRated = "rated"

var gates = []engine.Step{{Name: stepRated, Stage: engine.Gate, Queues: []string{workflow.Audio}}}

// A viewer cannot seek past a gate, and can behind it.
func TestNoSeekPassesAGate(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	id := uploaded(t, s)
	p := plan(2, true)
	p.Promises = append(p.Promises, engine.Promise{Step: stepRated, Items: 1, Gate: true, Queue: workflow.Audio})
	probed(t, s, id, p)
	if sought := videostore.Wanted(viewOf(t, s, id), 0, nil); len(sought) > 0 {
		t.Errorf("a viewer seeks past the gates: %v", sought)
	}
	gate := claimOf(t, s, key(id, stepRated, 0))
	if err := errors.Join(gate.Commit(t.Context(), videostore.Commit{}), gate.SendOutbox(t.Context()), gate.Follow(t.Context())); err != nil {
		t.Fatal(err)
	}
	if sought := videostore.Wanted(viewOf(t, s, id), 0, nil); len(sought) == 0 {
		t.Error("behind the gates no viewer can seek")
	}
}

func viewOf(t *testing.T, s *videostore.Store, id engine.ID) videostore.View {
	t.Helper()
	view, err := s.View(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return view
}
