package videostore

import (
	"slices"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// Whole returns the output of a generation's last step, or nil while that is not done.
func Whole(v View, generation int) (*video.FinishOutput, error) {
	step, _ := v.Find(generation, workflow.Declaration.Only(engine.Last).Name, 0)
	return engine.OutputOf[video.FinishOutput](step)
}

// Presentation collects what is committed of a generation, for its playlists.
func Presentation(v View, generation int) (playlist.Presentation, error) {
	p := playlist.Presentation{Plan: v.Plans[generation]}
	chunks, err := engine.OutputsOf[video.ChunkOutput](v, generation, workflow.Declaration.MakerOf(workflow.Pictures))
	if err != nil {
		return p, err
	}
	sound, err := engine.OutputsOf[video.AudioPart](v, generation, workflow.Declaration.MakerOf(workflow.Sound))
	p.Chunks, p.AudioDone = chunks, !slices.Contains(sound, nil)
	for _, part := range sound {
		if part != nil && len(part.Segments) > 0 { // else the track is shorter than the container says
			p.Parts = append(p.Parts, *part)
		}
	}
	return p, err
}

// Progress is how far the newest generation is.
type Progress struct {
	Percent     int `json:"percent"`
	ChunksDone  int `json:"chunksDone"`
	ChunksTotal int `json:"chunksTotal"`
}

// QuickProgress is what META alone says. It is exact for a video that is ready or not planned yet.
// For others only ChunksTotal is exact, and only the planning counts as done.
func QuickProgress(v video.Video) (p Progress, exact bool) {
	p.ChunksTotal = v.Items
	switch {
	case v.State == engine.Ready:
		p.Percent, p.ChunksDone = 100, p.ChunksTotal
		return p, true
	case p.ChunksTotal > 0:
		p.Percent = workflow.Declaration.Only(engine.First).Weight
		return p, false
	}
	return p, true
}

// ProgressOf weighs steps by their declared weights and chunks by their frames. Steps that the
// plan does not promise count as done.
func ProgressOf(v View) Progress {
	p, exact := QuickProgress(v.Subject)
	if exact {
		return p
	}
	declared, plan := workflow.Declaration, v.Plans[v.Subject.Generation]
	absent := 100 - declared.Only(engine.First).Weight - declared.Only(engine.Last).Weight
	for _, part := range append(declared.StepsIn(plan.Plan, engine.Gate), declared.StepsIn(plan.Plan, engine.Part)...) {
		var done, total int64
		for i := range part.Items {
			size := workflow.Size(part.Step, plan, i)
			total += size
			run, found := v.Find(plan.Generation, part.Step.Name, i)
			if !found || !run.Ended(part.Step) {
				continue
			}
			done += size
			if part.Step.Makes == workflow.Pictures {
				p.ChunksDone++
			}
		}
		p.Percent += int(int64(part.Step.Weight) * done / total)
		absent -= part.Step.Weight
	}
	p.Percent += absent
	return p
}

// Wanted returns the messages, in their most urgent queues, for the parts that a viewer needs
// who goes to a second of a video that is being made: the chunk that shows it, the next one,
// and the sound of both, unless they are committed or being worked on. A part whose turn comes
// later is promised twice then; its second message finds it done. Chunks that are shown have a
// preview.
func Wanted(v View, second float64, shown map[int]bool) []engine.OutboxMessage {
	plan, found := v.Plans[v.Subject.Generation]
	chunk, planned := plan.ChunkAt(second)
	if !found || !planned || !v.Subject.State.Active() {
		return nil
	}
	sound := plan.SoundFrom(plan.Start(chunk))
	wanted := slices.DeleteFunc(v.Parts(), func(m engine.OutboxMessage) bool {
		needed := false
		switch i := m.Index; m.Declared.Makes {
		case workflow.Pictures:
			needed = (i == chunk || i == chunk+1) && !shown[i] // else it was sent on behind its preview
		case workflow.Sound:
			needed = plan.Sound[i].First >= sound && video.SoundStart(plan.Sound[i].First) < plan.Start(chunk+2)
		}
		if !needed {
			return true
		}
		run, _ := v.RunOf(m.Key)
		return run.State == engine.RunRunning || v.Ended(m)
	})
	for i := range wanted {
		wanted[i].Queue = workflow.Declaration.InLane(wanted[i].Declared.Queues[0], v.Subject.Meta)
	}
	return wanted
}
