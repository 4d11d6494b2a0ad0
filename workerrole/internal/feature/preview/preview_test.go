package preview

import (
	"testing"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/workflow"
)

// A part that a viewer went to is recognised by the queue that it comes through.
func TestAViewerIsRecognised(t *testing.T) {
	t.Parallel()
	chunk := func(index int) engine.Key {
		return engine.Key{ID: engine.NewID(), Generation: 1, Step: workflow.StepEncode, Index: index}
	}
	if !isSeekRequest(chunk(7), workflow.EncodeFirst) {
		t.Error("a viewer's chunk is not recognised")
	}
	if isSeekRequest(chunk(0), workflow.EncodeFirst) || isSeekRequest(chunk(7), workflow.EncodeNormal) {
		t.Error("a chunk that no viewer went to is taken for one")
	}
	sound := chunk(1)
	sound.Step = workflow.StepAudio
	if isSeekRequest(sound, workflow.AudioFirst) {
		t.Error("a portion of sound is taken for a chunk")
	}
}
