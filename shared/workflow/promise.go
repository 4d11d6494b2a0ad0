package workflow

import "github.com/cutroom/cutroom/shared/video"

// Promise is a step that a plan promised, and how many runs it has.
type Promise struct {
	Step  Step
	Items int
}

// PromisesFor is what a new plan is to store: every part and every step after ready
// that has a run in it.
func PromisesFor(plan video.Plan) (stored []video.Promise) {
	for _, s := range Steps {
		if n := s.Items(plan); n > 0 && (s.Stage == Part || s.Stage == AfterReady) {
			stored = append(stored, video.Promise{
				Step: s.Name, Items: n, PerChunk: s.Count == PerChunk, After: s.Stage == AfterReady, Optional: s.IsOptional(), Queue: s.Queues[len(s.Queues)-1],
			})
		}
	}
	return stored
}

// Promises returns what a plan promised of a stage, Part or AfterReady, in order:
// what the plan stores, however much is declared today.
func Promises(plan video.Plan, stage Stage) (promised []Promise) {
	for _, p := range plan.Promises {
		if p.After != (stage == AfterReady) {
			continue
		}
		step, known := Find(p.Step)
		// Whether it fails alone is asked before the stage is replaced: it depends on it.
		step.Stage, step.Optional = stage, step.IsOptional()
		if !known { // a newer release planned: it is counted and asked for, and run elsewhere
			step.Optional, step.Queues = p.Optional, []string{p.Queue}
			if p.PerChunk {
				step.Count = PerChunk
			}
		}
		promised = append(promised, Promise{Step: step, Items: p.Items})
	}
	return promised
}

// StageIn returns when a step of a plan is due: as the plan stores it, which may differ
// from today's declaration.
func StageIn(plan video.Plan, step Step) Stage {
	for _, stage := range []Stage{Part, AfterReady} {
		for _, p := range Promises(plan, stage) {
			if p.Step.Name == step.Name {
				return stage
			}
		}
	}
	return step.Stage
}
