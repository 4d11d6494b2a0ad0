package workflow

import (
	"slices"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/video"
)

// Stage says when a step is due and what it waits for.
type Stage int

// The stages. A step of the first five is due once in each generation of a video.
const (
	_ Stage = iota
	// First waits for the upload. Its commit writes the plan. There is one.
	First
	// Gate waits for the first step, and the parts wait for all gates, which run side by side.
	// Until they are done nothing else of the generation is promised. It runs once.
	Gate
	// Part waits for the first step and the gates. All parts run side by side.
	Part
	// Last waits until every part has ended. Its commit makes the video ready. There is one.
	Last
	// AfterReady waits for the last step. The video plays already: such a step fails alone.
	AfterReady
	// OnRequest waits for a request. It has rows of its own kind and always fails alone.
	OnRequest
	// OnChange makes other tables follow META, any number of times, without rows. There is one.
	OnChange
	// OnDelete removes everything of a video. It has no rows. There is one.
	OnDelete
)

// Count says how many times a step runs in one generation.
type Count int

// The counts.
const (
	Once       Count = iota
	PerChunk         // once for each chunk of the plan
	PerPortion       // once for each portion of sound
	IfSound          // once, if there is sound
)

// Product is what the player reads of a step's rows.
type Product int

// The products. One step makes each.
const (
	Nothing  Product = iota
	Pictures         // video.ChunkOutput, for each chunk
	Sound            // video.AudioPart, for each portion
)

// Step declares one step.
type Step struct {
	Name  string // lower-case letters, digits and hyphens, at most 40
	Stage Stage
	Count Count

	// Queues are the base queues that its messages travel on, the most urgent first: Audio for
	// light work without urgency, EncodeLow for work that fills a core, or one of its own.
	Queues []string
	// Choose picks one of them; nil means the first. The plan is empty for a step
	// that is due without one.
	Choose func(v video.Video, plan video.Plan, index int) string

	// Optional: its failure leaves the video as it is. The last step waits also for such a
	// part, and so for its retries: what is not needed for a ready video belongs AfterReady.
	// AfterReady and OnRequest always fail alone.
	Optional bool

	// Early: a gate that may run on what has arrived of an upload. Without it, all that
	// comes after the gate waits for the whole upload.
	Early bool

	// Withdraws: when a gate rejects a reprocessing, with a *video.Failure, the generation that
	// plays does not play any more. Without it, that one stays.
	Withdraws bool

	// Weight is its share of the progress bar, in percent. All together are 100.
	Weight int

	// Rows is the kind of the rows of a step on request: the start of their keys,
	// which sorts before META, so that playing a video never reads them.
	Rows string

	// Expires: what was made on request is removed some time after.
	Expires bool

	// Makes is what the player reads of it.
	Makes Product
}

// HasRows reports whether runs of the step are claimed and committed in a row.
func (s Step) HasRows() bool { return s.Stage >= First && s.Stage <= OnRequest }

// IsOptional reports whether a failure of the step leaves its video as it is.
func (s Step) IsOptional() bool {
	return s.Optional || s.Stage == AfterReady || s.Stage == OnRequest
}

// Shown reports whether the timeline shows runs of the step.
func (s Step) Shown() bool { return s.HasRows() && s.Stage != OnRequest }

// Items is how many runs of the step a plan has.
func (s Step) Items(plan video.Plan) int {
	switch {
	case s.Count == PerChunk:
		return len(plan.Chunks)
	case s.Count == PerPortion:
		return len(plan.Sound)
	case s.Count == IfSound && !plan.HasAudio:
		return 0
	}
	return 1
}

// Size is the share that one run has of the step's work: its frames when it is a chunk.
func (s Step) Size(plan video.Plan, index int) int64 {
	if s.Count == PerChunk {
		return plan.Chunks[index].To - plan.Chunks[index].From
	}
	return 1
}

// Span is the part of the video, in seconds, whose pictures one run makes, if it makes any.
func (s Step) Span(plan video.Plan, index int) (from, to float64, ok bool) {
	if s.Makes != Pictures || s.Count != PerChunk || index >= len(plan.Chunks) {
		return 0, 0, false
	}
	chunk := plan.Chunks[index]
	return plan.FPS.Seconds(chunk.From), plan.FPS.Seconds(chunk.To), true
}

// Queue is the queue that a run of the step travels on, with the video's lane if it has lanes.
func (s Step) Queue(v video.Video, plan video.Plan, index int) string {
	base := s.Queues[0]
	if s.Choose != nil {
		base = s.Choose(v, plan, index)
	}
	return laneQueue(base, v)
}

// QueueAt is the queue of the given urgency, with the video's lane: 0 for a run that a viewer
// waits for, 1 for one of which there is a preview, behind what is urgent and before the bulk.
func (s Step) QueueAt(urgency int, v video.Video) string {
	return laneQueue(s.Queues[min(urgency, len(s.Queues)-1)], v)
}

func laneQueue(base string, v video.Video) string {
	if slices.ContainsFunc(Specs, func(q azq.Spec) bool { return q.Name == base && q.Laned }) {
		return azq.LaneName(base, v.Lane%azq.DefaultLanes)
	}
	return base
}

// Wanted reports whether a video still wants a run of the step: while its generation is being
// made; of one that fails alone, also while the generation plays; a step on request ends with
// the tombstone only. A step after ready is wanted earlier, too: a plan of another release may
// have promised it as a part.
func (s Step) Wanted(v video.Video, generation int) bool {
	alive := v.State != video.Deleting
	switch s.Stage {
	case First, Gate, Part, Last, AfterReady:
		return v.Working() && v.Generation == generation || s.IsOptional() && alive && v.Serving == generation
	case OnRequest:
		return alive
	}
	return true
}

// Promise is a step that a plan promised, and how many runs it has.
type Promise struct {
	Step  Step
	Items int
}

// PromisesFor is what a new plan is to store: the gates, the parts and the steps after ready.
func PromisesFor(plan video.Plan) (stored []video.Promise) {
	for _, s := range Steps {
		if n := s.Items(plan); n > 0 && (s.Stage == Gate || s.Stage == Part || s.Stage == AfterReady) {
			stored = append(stored, video.Promise{
				Step: s.Name, Items: n, PerChunk: s.Count == PerChunk, Gate: s.Stage == Gate, After: s.Stage == AfterReady,
				Optional: s.IsOptional(), Queue: s.Queues[len(s.Queues)-1],
			})
		}
	}
	return stored
}

// stageOf is when a promised step is due.
func stageOf(p video.Promise) Stage {
	switch {
	case p.Gate:
		return Gate
	case p.After:
		return AfterReady
	}
	return Part
}

// Promises returns what a plan promised of a stage, Gate, Part or AfterReady, in order:
// what the plan stores, however much is declared today.
func Promises(plan video.Plan, stage Stage) (promised []Promise) {
	for _, p := range plan.Promises {
		if stageOf(p) != stage {
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
	for _, p := range plan.Promises {
		if p.Step == step.Name {
			return stageOf(p)
		}
	}
	return step.Stage
}
