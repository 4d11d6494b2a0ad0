package workflow_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
	"github.com/cutroom/cutroom/shared/workflow"
)

// The declaration is part of the program, so a test checks it, and no start.
func TestDeclaration(t *testing.T) {
	t.Parallel()
	if err := enginetest.Check(workflow.Declaration); err != nil {
		t.Error(err)
	}
	for _, product := range []string{workflow.Pictures, workflow.Sound} {
		makers := slices.DeleteFunc(slices.Clone(workflow.Steps), func(s engine.Step) bool { return s.Makes != product })
		if len(makers) != 1 {
			t.Errorf("%d steps make the %s, want one", len(makers), product)
		}
	}
}

// Every mistake is an error that says what to do.
func TestCheckNamesEveryMistake(t *testing.T) {
	t.Parallel()
	with := func(s engine.Step) []engine.Step { return append(slices.Clone(workflow.Steps), s) }
	probe := []string{workflow.Probe}
	for want, steps := range map[string][]engine.Step{
		"set Queues to one that the queue list declares": with(engine.Step{Name: "x", Stage: engine.Part}),
		"add it to Queues":                            with(engine.Step{Name: "x", Stage: engine.Part, Queues: []string{"gpu"}}),
		"set Stage to when it is due":                 with(engine.Step{Name: "x", Queues: probe}),
		"use lower-case letters, digits and hyphens":  with(engine.Step{Name: "Poster Sheet", Stage: engine.Part, Queues: probe}),
		"is declared twice":                           with(engine.Step{Name: workflow.StepAudio, Stage: engine.Part, Queues: probe}),
		"which only a Part and a step AfterReady may": with(engine.Step{Name: "x", Stage: engine.Gate, Count: workflow.PerChunk, Queues: probe}),
		"use a name before \"meta\"":                  with(engine.Step{Name: "zoo", Stage: engine.OnRequest, Queues: probe}),
		"leave Optional and Makes unset":              with(engine.Step{Name: "x", Stage: engine.Gate, Optional: true, Queues: probe}),
		"which say something of a Gate only":          with(engine.Step{Name: "x", Stage: engine.Part, Withdraws: true, Queues: probe}),
		"2 steps are in stage Last":                   with(engine.Step{Name: "x", Stage: engine.Last, Queues: probe}),
		"the weights add up to 101":                   with(engine.Step{Name: "x", Stage: engine.Part, Weight: 1, Queues: probe}),
		"2 steps lead":                                with(engine.Step{Name: "x", Stage: engine.Part, Count: workflow.PerChunk, Leads: true, Queues: probe}),
		"leads, which only a Part":                    with(engine.Step{Name: "x", Stage: engine.Part, Leads: true, Queues: probe}),
	} {
		declared := workflow.Declaration
		declared.Steps = steps
		if err := enginetest.Check(declared); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
