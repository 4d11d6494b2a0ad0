package engine

import (
	"slices"

	"github.com/cutroom/cutroom/shared/azq"
)

// Stage says when a step is due and what it waits for.
type Stage int

// The stages. A step of the first five is due once in each generation of a subject.
const (
	_ Stage = iota
	// First waits for the upload. Its commit writes the plan. There is one.
	First
	// Gate waits for the first step, and the parts wait for all gates: see Step.Round.
	// Until they are done nothing else of the generation is promised. It runs once.
	Gate
	// Part waits for the first step and the gates. All parts run side by side.
	Part
	// Last waits until every part has ended. Its commit makes the subject ready. There is one.
	Last
	// AfterReady waits for the last step. The subject serves already: such a step fails alone.
	AfterReady
	// OnRequest waits for a request. It has rows of its own kind and always fails alone.
	OnRequest
	// OnChange makes other tables follow META, any number of times, without rows. There is one.
	OnChange
	// OnDelete removes everything of a subject. It has no rows. There is one.
	OnDelete
)

// Count names what of a plan a step runs once for. The product says how many a plan has.
type Count string

// Once is the count of a step that runs once in a generation.
const Once Count = ""

// Step declares one step.
type Step struct {
	Name  string // lower-case letters, digits and hyphens, at most 40
	Stage Stage
	Count Count
	// If: it runs once, when the plan has any of these; else not at all.
	If Count

	// Leads: a plan may have very many runs of its count, so only some of them are promised at
	// a time, and each commit of this step promises the next. At most one step leads.
	Leads bool

	// Queues are the base queues that its messages travel on, the most urgent first.
	Queues []string
	// Choose picks one of them; nil means the first. The plan is empty for a step
	// that is due without one.
	Choose func(m Meta, plan Plan, index int) string

	// Optional: its failure leaves the subject as it is. The last step waits also for such a
	// part, and so for its retries: what is not needed for a ready subject belongs AfterReady.
	// AfterReady and OnRequest always fail alone.
	Optional bool

	// Round orders gates: those of one round run side by side, when all of lower rounds are done.
	Round int

	// Early: a gate that may run on what has arrived of an upload. Without it, all that
	// comes after the gate waits for the whole upload.
	Early bool

	// Withdraws: when a gate rejects a reprocessing, with a *Failure, the generation that
	// serves does not serve any more. Without it, that one stays.
	Withdraws bool

	// Weight is its share of the progress bar, in percent. All together are 100.
	Weight int

	// Expires: what was made on request is removed some time after.
	Expires bool

	// Makes names what the product's other code reads of its rows; empty for nothing.
	Makes string
}

// HasRows reports whether runs of the step are claimed and committed in a row.
func (s Step) HasRows() bool { return s.Stage >= First && s.Stage <= OnRequest }

// IsOptional reports whether a failure of the step leaves its subject as it is.
func (s Step) IsOptional() bool {
	return s.Optional || s.Stage == AfterReady || s.Stage == OnRequest
}

// Wanted reports whether a subject still wants a run of the step: while its generation is being
// made; of one that fails alone, also while the generation serves; a step on request ends with
// the tombstone only. A step after ready is wanted earlier, too: a plan of another release may
// have promised it as a part.
func (s Step) Wanted(m Meta, generation int) bool {
	alive := m.State != Deleting
	switch s.Stage {
	case First, Gate, Part, Last, AfterReady:
		return m.Working() && m.Generation == generation || s.IsOptional() && alive && m.Serving == generation
	case OnRequest:
		return alive
	}
	return true
}

// Declaration is what a program declares: its steps, in the order of the timeline, and the
// queues that they travel on. Treat it as read-only.
type Declaration struct {
	Name   string // of the product: the namespace and the source of its items
	Table  string // of its subjects
	Steps  []Step
	Queues []azq.Spec
}

// Find returns the declaration of a step, or false: a newer release may have sent
// the message or written the row.
func (d Declaration) Find(name string) (Step, bool) {
	if i := d.Order(name); i < len(d.Steps) {
		return d.Steps[i], true
	}
	return Step{Name: name}, false
}

// StepOf is the declaration of a key's step. An unknown step is in no stage.
func (d Declaration) StepOf(k Key) Step {
	s, _ := d.Find(k.Step)
	return s
}

// Only returns the only step of a stage: First, Last, OnChange or OnDelete.
func (d Declaration) Only(stage Stage) Step {
	return d.Steps[slices.IndexFunc(d.Steps, func(s Step) bool { return s.Stage == stage })]
}

// MakerOf names the step that makes something.
func (d Declaration) MakerOf(product string) string {
	return d.Steps[slices.IndexFunc(d.Steps, func(s Step) bool { return s.Makes == product })].Name
}

// Order is the place of a step in the timeline; unknown ones come last.
func (d Declaration) Order(name string) int {
	if i := slices.IndexFunc(d.Steps, func(s Step) bool { return s.Name == name }); i >= 0 {
		return i
	}
	return len(d.Steps)
}

// leader is the step that leads; none is the zero step.
func (d Declaration) leader() (leader Step) {
	if i := slices.IndexFunc(d.Steps, func(s Step) bool { return s.Leads }); i >= 0 {
		leader = d.Steps[i]
	}
	return leader
}

// Windowed reports whether only some runs of a step are promised at a time.
func (d Declaration) Windowed(s Step) bool { return s.Count != Once && s.Count == d.leader().Count }

// windowItems is how many runs the window goes over in a plan.
func (d Declaration) windowItems(plan Plan) int { return plan.Items(d.leader().Name) }

// QueueOf is the queue that a run of a step travels on.
func (d Declaration) QueueOf(s Step, m Meta, plan Plan, index int) string {
	base := s.Queues[0]
	if s.Choose != nil {
		base = s.Choose(m, plan, index)
	}
	return d.InLane(base, m)
}

// InLane is the queue of that base name, in the subject's lane if it has lanes.
func (d Declaration) InLane(base string, m Meta) string {
	if slices.ContainsFunc(d.Queues, func(q azq.Spec) bool { return q.Name == base && q.Laned }) {
		return azq.LaneName(base, m.Lane%azq.DefaultLanes)
	}
	return base
}

// PromisesFor is what a new plan is to store: the gates, the parts and the steps after ready.
// counts is how many it has of what steps run for.
func (d Declaration) PromisesFor(counts map[Count]int) (stored []Promise) {
	for _, s := range d.Steps {
		items := 1
		if s.Count != Once {
			items = counts[s.Count]
		} else if s.If != Once {
			items = min(1, counts[s.If])
		}
		if items > 0 && (s.Stage == Gate || s.Stage == Part || s.Stage == AfterReady) {
			stored = append(stored, Promise{
				Step: s.Name, Items: items, Windowed: d.Windowed(s), Gate: s.Stage == Gate, Round: s.Round,
				After: s.Stage == AfterReady, Optional: s.IsOptional(), Queue: s.Queues[len(s.Queues)-1],
			})
		}
	}
	return stored
}

// PlannedStep is a step that a plan promised, and how many runs it has.
type PlannedStep struct {
	Step  Step
	Items int
}

// StepsIn returns what a plan promised of a stage, Gate, Part or AfterReady, in order:
// what the plan stores, however much is declared today.
func (d Declaration) StepsIn(plan Plan, stage Stage) (planned []PlannedStep) {
	for _, p := range plan.Promises {
		if p.Gate != (stage == Gate) || p.After != (stage == AfterReady) {
			continue
		}
		step, known := d.Find(p.Step)
		// Whether it fails alone is asked before the stage is replaced: it depends on it.
		step.Stage, step.Round, step.Optional = stage, p.Round, step.IsOptional()
		if !known { // a newer release planned: it is counted and asked for, and run elsewhere
			step.Optional, step.Queues = p.Optional, []string{p.Queue}
			if p.Windowed {
				step.Count = d.leader().Count
			}
		}
		planned = append(planned, PlannedStep{Step: step, Items: p.Items})
	}
	return planned
}
