package workflow

import (
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/product"
	"github.com/cutroom/cutroom/shared/video"
)

// Names of the steps. They are stored in rows, messages and blob names: never change one.
const (
	StepProbe  = "probe"
	StepEncode = "encode"
	StepAudio  = "audio"
	StepFinish = "finish"
	StepClip   = "clip"

	StepDigest   = "digest"
	StepLoudness = "loudness"
	StepCaptions = "captions"

	StepIndex = "index"
	StepPurge = "purge"
)

// Steps is the one place to declare a step, in the order of the timeline. Treat it as read-only.
// TestDeclaration says what is wrong with it.
var Steps = []engine.Step{
	{Name: StepProbe, Stage: engine.First, Queues: []string{Probe, Audio}, Choose: urgentQueue(Probe), Weight: 2},
	{
		Name: StepEncode, Stage: engine.Part, Count: PerChunk, Leads: true, Makes: Pictures, Weight: 90,
		Queues: []string{EncodeFirst, EncodeHigh, EncodeNormal, EncodeLow}, Choose: chooseChunkQueue,
	},
	{
		Name: StepAudio, Stage: engine.Part, Count: PerPortion, Makes: Sound, Weight: 3,
		Queues: []string{AudioFirst, Audio}, Choose: choosePortionQueue,
	},
	{Name: StepFinish, Stage: engine.Last, Queues: []string{Finish, Audio}, Choose: urgentQueue(Finish), Weight: 5},
	{Name: StepDigest, Stage: engine.AfterReady, Queues: []string{Audio}},
	{Name: StepLoudness, Stage: engine.AfterReady, If: PerPortion, Queues: []string{Audio}},
	{Name: StepClip, Stage: engine.OnRequest, Expires: true, Optional: true, Queues: []string{EncodeHigh}},
	{Name: StepCaptions, Stage: engine.OnRequest, Optional: true, Queues: []string{Finish}},
	{Name: StepIndex, Stage: engine.OnChange, Queues: []string{Index}},
	{Name: StepPurge, Stage: engine.OnDelete, Queues: []string{Purge}},
}

// leadChunks is how many chunks of a new video go before the bulk: about the
// first quarter of a minute, which is what a viewer waits for.
const leadChunks = 3

// chooseChunkQueue chooses the queue of a chunk (Q5). The first chunk of a new video
// goes before everything else of its lane, so that every upload is soon playable;
// the next two go before the bulk; the rest follows the user's priority. A channel that
// sent much while others waited gets a class less, or its first chunks would hold the
// urgent slot all the time. Reprocessing, and work during the upload, have a low priority.
func chooseChunkQueue(m engine.Meta, _ engine.Plan, index int) string {
	switch {
	case m.Serving > 0, m.State == engine.AwaitingUpload && index >= leadChunks:
		return EncodeLow
	case m.Bulk && index == 0:
		return EncodeHigh
	case index == 0:
		return EncodeFirst
	case m.Priority == engine.High || index < leadChunks && !m.Bulk:
		return EncodeHigh
	case m.Priority == engine.Low:
		return EncodeLow
	}
	return EncodeNormal
}

// urgentQueue chooses an urgent queue for the short steps of a new video. Of a channel that sent
// much while others waited, and of reprocessing, they are in the bulk: the probes of 200 clips
// would have most of the light slots.
func urgentQueue(urgent string) func(engine.Meta, engine.Plan, int) string {
	return func(m engine.Meta, _ engine.Plan, _ int) string {
		if m.Bulk || m.Serving > 0 {
			return Audio
		}
		return urgent
	}
}

// choosePortionQueue chooses the queue of a portion of sound: the first of a new video is
// as urgent as its first chunk, and so is the second when there are no more, for such a
// video has no chunk in the bulk either.
func choosePortionQueue(m engine.Meta, plan engine.Plan, index int) string {
	lead := index == 0 || plan.Items(StepAudio) == 2
	if lead && m.Serving == 0 && !m.Bulk {
		return AudioFirst
	}
	return Audio
}

// VideosTable is the table of all videos.
const VideosTable = "videos"

// Declaration is what the engine knows of Cutroom.
var Declaration = engine.Declaration{
	Name: product.Name, Table: VideosTable, Steps: Steps, Queues: Specs,
}

// What steps run for: see engine.Count.
const (
	PerChunk   engine.Count = "chunk"   // once for each chunk of the plan
	PerPortion engine.Count = "portion" // once for each portion of sound
)

// PromisesFor is what a new plan promises.
func PromisesFor(plan video.Plan) []engine.Promise {
	return Declaration.PromisesFor(map[engine.Count]int{PerChunk: len(plan.Chunks), PerPortion: len(plan.Sound)})
}

// What the player reads of a step's rows. One step makes each.
const (
	Pictures = "pictures" // video.ChunkOutput, for each chunk
	Sound    = "sound"    // video.AudioPart, for each portion
)

// Size is the share that one run has of a step's work: its frames when it is a chunk.
func Size(step engine.Step, plan video.Plan, index int) int64 {
	if step.Count == PerChunk {
		return plan.Chunks[index].To - plan.Chunks[index].From
	}
	return 1
}

// Span is the part of the video, in seconds, whose pictures one run makes, if it makes any.
func Span(step engine.Step, plan video.Plan, index int) (from, to float64, ok bool) {
	if step.Makes != Pictures || step.Count != PerChunk || index >= len(plan.Chunks) {
		return 0, 0, false
	}
	chunk := plan.Chunks[index]
	return plan.FPS.Seconds(chunk.From), plan.FPS.Seconds(chunk.To), true
}
