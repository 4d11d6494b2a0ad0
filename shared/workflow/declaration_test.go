package workflow

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/azq"
)

// The declaration is part of the program, so a test checks it, and no start.
func TestDeclaration(t *testing.T) {
	t.Parallel()
	if err := check(Steps, Specs); err != nil {
		t.Error(err)
	}
}

// Every mistake is an error that says what to do.
func TestCheckNamesEveryMistake(t *testing.T) {
	t.Parallel()
	with := func(s Step) []Step { return append(slices.Clone(Steps), s) }
	probe := []string{Probe}
	for want, steps := range map[string][]Step{
		"set Queues to one that the queue list declares": with(Step{Name: "x", Stage: Part}),
		"add it to workflow.Specs":                       with(Step{Name: "x", Stage: Part, Queues: []string{"gpu"}}),
		"set Stage to when it is due":                    with(Step{Name: "x", Queues: probe}),
		"use lower-case letters, digits and hyphens":     with(Step{Name: "Poster Sheet", Stage: Part, Queues: probe}),
		"is declared twice":                              with(Step{Name: StepAudio, Stage: Part, Queues: probe}),
		"which only a Part and a step AfterReady may":    with(Step{Name: "x", Stage: Gate, Count: PerChunk, Queues: probe}),
		"a kind of its own that sorts before META":       with(Step{Name: "x", Stage: OnRequest, Rows: "ZOO", Queues: probe}),
		"leave Optional and Makes unset":                 with(Step{Name: "x", Stage: Gate, Optional: true, Queues: probe}),
		"which say something of a Gate only":             with(Step{Name: "x", Stage: Part, Withdraws: true, Queues: probe}),
		"2 steps are in stage Last":                      with(Step{Name: "x", Stage: Last, Queues: probe}),
		"the weights add up to 101":                      with(Step{Name: "x", Stage: Part, Weight: 1, Queues: probe}),
		"2 steps make the pictures":                      with(Step{Name: "x", Stage: Part, Makes: Pictures, Queues: probe}),
	} {
		if err := check(steps, Specs); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

var name = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

// check returns what keeps a declaration from working, and what to do. That every step has a
// handler and every queue's pool has slots is checked by the worker, at its start.
func check(steps []Step, specs []azq.Spec) error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("workflow.Steps: "+format, args...))
	}
	weight := 0
	seen, kinds := map[string]bool{}, map[string]bool{"STEP": true}
	makers, stages := map[Product]int{}, map[Stage]int{}
	for _, s := range steps {
		if seen[s.Name] {
			bad("%q is declared twice: give one of them another name", s.Name)
		}
		seen[s.Name] = true
		if !name.MatchString(s.Name) {
			bad("%q is no name for a step, for it is part of rows, blobs and addresses: use lower-case letters, digits and hyphens, at most 40", s.Name)
		}
		weight += s.Weight
		makers[s.Makes]++
		stages[s.Stage]++
		if s.Stage < First || s.Stage > OnDelete {
			bad("%q has no stage: set Stage to when it is due", s.Name)
		}
		if s.Stage != Part && s.Stage != AfterReady && s.Count != Once && (s.Stage != Gate || s.Count != IfSound) {
			bad("%q runs more than once, which only a Part and a step AfterReady may: set Count to Once", s.Name)
		}
		if s.Stage == Gate && (s.Optional || s.Makes != Nothing) {
			bad("%q is a gate: the video fails with it, and nothing can be watched before; leave Optional and Makes unset", s.Name)
		}
		if s.Stage != Gate && (s.Early || s.Withdraws) {
			bad("%q has Early or Withdraws, which say something of a Gate only: leave them unset", s.Name)
		}
		if s.Stage == OnRequest && (s.Rows == "" || s.Rows >= "META" || kinds[s.Rows]) {
			bad("%q is on request: set Rows to a kind of its own that sorts before META", s.Name)
		}
		kinds[s.Rows] = true
		if len(s.Queues) == 0 {
			bad("%q has no queue: set Queues to one that the queue list declares", s.Name)
		}
		for _, queue := range s.Queues {
			if !slices.ContainsFunc(specs, func(q azq.Spec) bool { return q.Name == queue }) {
				bad("%q travels on queue %q, which is not declared: add it to workflow.Specs", s.Name, queue)
			}
		}
	}
	for name, stage := range map[string]Stage{"First": First, "Last": Last, "OnChange": OnChange, "OnDelete": OnDelete} {
		if n := stages[stage]; n != 1 {
			bad("%d steps are in stage %s, which needs exactly one", n, name)
		}
	}
	if makers[Pictures] != 1 || makers[Sound] != 1 {
		bad("%d steps make the pictures and %d the sound, want one of each", makers[Pictures], makers[Sound])
	}
	if weight != 100 {
		bad("the weights add up to %d, want 100: take from one what you give to another", weight)
	}
	return errors.Join(problems...)
}
