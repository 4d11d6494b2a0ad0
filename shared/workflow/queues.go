// Package workflow declares the work that a video is.
package workflow

import (
	"runtime"
	"time"

	"github.com/cutroom/cutroom/shared/workqueue"
)

// The queues. Each kind of work with a duration of its own has a queue of its
// own (paper rows Q5 and Q16b). Names are completed with the stack's prefix.
const (
	Probe        = "probe"
	EncodeFirst  = "encode-first" // the first chunk of every video
	EncodeHigh   = "encode-high"
	EncodeNormal = "encode-normal"
	EncodeLow    = "encode-low"
	AudioFirst   = "audio-first" // the first seconds of every video's sound
	Audio        = "audio"
	Finish       = "finish"
	Index        = "index"
	Purge        = "purge"
)

// The pools: groups of slots in a worker role. Heavy work never takes the slot
// of light work (paper row Q5).
const (
	Light = "light"
	Heavy = "heavy"
)

// Pools returns the slots of each pool unless WORKERROLE_POOLS says otherwise.
// A pool of one's own is named here.
func Pools() map[string]int { return map[string]int{Light: 4, Heavy: runtime.NumCPU()} }

// ItemVersion is the newest version of items that this code understands. Version
// 2 has the data of version 1; it says that the video's plan cuts sound into
// portions (video.Plan.Format), which a worker that knows only version 1 would
// miscount.
const ItemVersion = 2

// Specs is the one place to add a queue. Treat it as read-only;
// workqueue.WithVisibility returns changed copies.
var Specs = []workqueue.Spec{
	{Name: Probe, Steps: []string{"probe"}, Pool: Light, Laned: true, Visibility: 60 * time.Second, Weight: 6, Urgent: true, MaxIdlePoll: 500 * time.Millisecond},
	{Name: EncodeFirst, Steps: []string{"encode"}, Pool: Heavy, Laned: true, Visibility: 120 * time.Second, Weight: 6, Urgent: true, MaxIdlePoll: time.Second},
	{Name: EncodeHigh, Steps: []string{"encode", "clip"}, Pool: Heavy, Laned: true, Visibility: 120 * time.Second, Weight: 6, MaxWait: 5 * time.Minute, MaxIdlePoll: time.Second},
	{Name: EncodeNormal, Steps: []string{"encode"}, Pool: Heavy, Laned: true, Visibility: 120 * time.Second, Weight: 3, MaxWait: 10 * time.Minute},
	{Name: EncodeLow, Steps: []string{"encode"}, Pool: Heavy, Laned: true, Visibility: 120 * time.Second, Weight: 1, MaxWait: 30 * time.Minute},
	{Name: AudioFirst, Steps: []string{"audio"}, Pool: Light, Laned: true, Visibility: 60 * time.Second, Weight: 6, Urgent: true, MaxIdlePoll: time.Second},
	{Name: Audio, Steps: []string{"audio"}, Pool: Light, Laned: true, Visibility: 120 * time.Second, Weight: 3},
	{Name: Finish, Steps: []string{"finish"}, Pool: Light, Laned: true, Visibility: 120 * time.Second, Weight: 3},
	{Name: Index, Steps: []string{"index"}, Pool: Light, Visibility: 30 * time.Second, Weight: 2},
	{Name: Purge, Steps: []string{"purge"}, Pool: Light, Visibility: 60 * time.Second, Weight: 1},
}
