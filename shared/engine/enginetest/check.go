// Package enginetest checks what a product declares to package engine, for its tests. It has a small
// product of its own, sums of numbers, that the engine is tested with.
package enginetest

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/engine"
)

var name = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

// Check returns what keeps a declaration from working, and what to do. That every step has a
// handler and every queue's pool has slots is checked by the worker, at its start.
func Check(d engine.Declaration) error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("steps: "+format, args...))
	}
	weight, leaders := 0, 0
	seen, stages := map[string]bool{}, map[engine.Stage]int{}
	for _, s := range d.Steps {
		if seen[s.Name] {
			bad("%q is declared twice: give one of them another name", s.Name)
		}
		seen[s.Name] = true
		if !name.MatchString(s.Name) {
			bad("%q is no name for a step, for it is part of rows, blobs and addresses: use lower-case letters, digits and hyphens, at most 40", s.Name)
		}
		weight += s.Weight
		if s.Leads {
			leaders++
		}
		stages[s.Stage]++
		if s.Stage < engine.First || s.Stage > engine.OnDelete {
			bad("%q has no stage: set Stage to when it is due", s.Name)
		}
		checkStage(d, s, bad)
		if len(s.Queues) == 0 {
			bad("%q has no queue: set Queues to one that the queue list declares", s.Name)
		}
		for _, queue := range s.Queues {
			if !slices.ContainsFunc(d.Queues, func(q azq.Spec) bool { return q.Name == queue }) {
				bad("%q travels on queue %q, which is not declared: add it to Queues", s.Name, queue)
			}
		}
	}
	for name, stage := range map[string]engine.Stage{"First": engine.First, "Last": engine.Last, "OnChange": engine.OnChange, "OnDelete": engine.OnDelete} {
		if n := stages[stage]; n != 1 {
			bad("%d steps are in stage %s, which needs exactly one", n, name)
		}
	}
	if leaders > 1 {
		bad("%d steps lead, and at most one may", leaders)
	}
	if weight != 100 {
		bad("the weights add up to %d, want 100: take from one what you give to another", weight)
	}
	return errors.Join(problems...)
}

// checkStage says what a step has that means nothing in its stage.
func checkStage(d engine.Declaration, s engine.Step, bad func(format string, args ...any)) {
	if s.Stage != engine.Part && s.Stage != engine.AfterReady && s.Count != engine.Once {
		bad("%q runs more than once, which only a Part and a step AfterReady may: set Count to Once", s.Name)
	}
	if s.If != engine.Once && (s.Count != engine.Once || s.Stage != engine.Gate && s.Stage != engine.Part && s.Stage != engine.AfterReady) {
		bad("%q has If, which only a Gate, a Part and a step AfterReady may that run once: leave it unset", s.Name)
	}
	if s.Optional && (s.Leads || s.Stage != engine.Part && s.Stage != engine.AfterReady && s.Stage != engine.OnRequest) {
		bad("%q is Optional, but what follows waits for its success: leave Optional unset", s.Name)
	}
	if s.Expires && s.Stage != engine.OnRequest {
		bad("%q has Expires, which only a step OnRequest may: leave it unset", s.Name)
	}
	if s.Stage == engine.Gate && (s.Optional || s.Makes != "") {
		bad("%q is a gate: the subject fails with it, and nothing can be used before; leave Optional and Makes unset", s.Name)
	}
	if s.Stage != engine.Gate && (s.Early || s.Withdraws || s.Round != 0) {
		bad("%q has Early, Withdraws or Round, which say something of a Gate only: leave them unset", s.Name)
	}
	if s.Round < 0 {
		bad("%q has a negative Round: count from 0", s.Name)
	}
	if s.Early && slices.ContainsFunc(d.Steps, func(g engine.Step) bool { return g.Stage == engine.Gate && !g.Early && g.Round < s.Round }) {
		bad("%q is Early, and a gate of a lower Round is not: it would wait for the whole upload; give it a Round as low", s.Name)
	}
	if s.Stage == engine.OnRequest && strings.ToUpper(s.Name) >= "META" {
		bad("%q is on request, and rows of that name sort behind META: use a name before \"meta\"", s.Name)
	}
	if s.Leads && (s.Stage != engine.Part || s.Count == engine.Once) {
		bad("%q leads, which only a Part that runs more than once may: set Count", s.Name)
	}
}
