package workflow

import (
	"slices"

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
var Steps = []Step{
	{Name: StepProbe, Stage: First, Queues: []string{Probe, Audio}, Choose: urgentQueue(Probe), Weight: 2},
	{
		Name: StepEncode, Stage: Part, Count: PerChunk, Makes: Pictures, Weight: 90,
		Queues: []string{EncodeFirst, EncodeHigh, EncodeNormal, EncodeLow}, Choose: chooseChunkQueue,
	},
	{
		Name: StepAudio, Stage: Part, Count: PerPortion, Makes: Sound, Weight: 3,
		Queues: []string{AudioFirst, Audio}, Choose: choosePortionQueue,
	},
	{Name: StepFinish, Stage: Last, Queues: []string{Finish, Audio}, Choose: urgentQueue(Finish), Weight: 5},
	{Name: StepDigest, Stage: AfterReady, Queues: []string{Audio}},
	{Name: StepLoudness, Stage: AfterReady, Count: IfSound, Queues: []string{Audio}},
	{Name: StepClip, Stage: OnRequest, Rows: "CLIP", Expires: true, Optional: true, Queues: []string{EncodeHigh}},
	{Name: StepCaptions, Stage: OnRequest, Rows: "CAPTIONS", Optional: true, Queues: []string{Finish}},
	{Name: StepIndex, Stage: OnChange, Queues: []string{Index}},
	{Name: StepPurge, Stage: OnDelete, Queues: []string{Purge}},
}

// leadChunks is how many chunks of a new video go before the bulk: about the
// first quarter of a minute, which is what a viewer waits for.
const leadChunks = 3

// chooseChunkQueue chooses the queue of a chunk (Q5). The first chunk of a new video
// goes before everything else of its lane, so that every upload is soon playable;
// the next two go before the bulk; the rest follows the user's priority. A channel that
// sent much while others waited gets a class less, or its first chunks would hold the
// urgent slot all the time. Reprocessing, and work during the upload, have a low priority.
func chooseChunkQueue(v video.Video, _ video.Plan, index int) string {
	switch {
	case v.Serving > 0, v.State == video.AwaitingUpload && index >= leadChunks:
		return EncodeLow
	case v.Bulk && index == 0:
		return EncodeHigh
	case index == 0:
		return EncodeFirst
	case v.Priority == video.High || index < leadChunks && !v.Bulk:
		return EncodeHigh
	case v.Priority == video.Low:
		return EncodeLow
	}
	return EncodeNormal
}

// urgentQueue chooses an urgent queue for the short steps of a new video. Of a channel that sent
// much while others waited, and of reprocessing, they are in the bulk: the probes of 200 clips
// would have most of the light slots.
func urgentQueue(urgent string) func(video.Video, video.Plan, int) string {
	return func(v video.Video, _ video.Plan, _ int) string {
		if v.Bulk || v.Serving > 0 {
			return Audio
		}
		return urgent
	}
}

// choosePortionQueue chooses the queue of a portion of sound: the first of a new video is
// as urgent as its first chunk, and so is the second when there are no more, for such a
// video has no chunk in the bulk either.
func choosePortionQueue(v video.Video, plan video.Plan, index int) string {
	lead := index == 0 || len(plan.Sound) == 2
	if lead && v.Serving == 0 && !v.Bulk {
		return AudioFirst
	}
	return Audio
}

// Find returns the declaration of a step, or false: a newer release may have sent
// the message or written the row.
func Find(name string) (Step, bool) {
	if i := Order(name); i < len(Steps) {
		return Steps[i], true
	}
	return Step{Name: name}, false
}

// OnlyStepIn returns the only step of a stage: First, Last, OnChange or OnDelete. A test
// holds that there is one.
func OnlyStepIn(stage Stage) Step {
	return Steps[slices.IndexFunc(Steps, func(s Step) bool { return s.Stage == stage })]
}

// MakerOf names the step that makes a product.
func MakerOf(product Product) string {
	return Steps[slices.IndexFunc(Steps, func(s Step) bool { return s.Makes == product })].Name
}

// Order is the place of a step in the timeline; unknown ones come last.
func Order(name string) int {
	if i := slices.IndexFunc(Steps, func(s Step) bool { return s.Name == name }); i >= 0 {
		return i
	}
	return len(Steps)
}
