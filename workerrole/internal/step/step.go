// Package step holds the steps, one file each, in the order in which they run:
//
//	probe     finds out what it is, makes the plan       → encode, audio
//	encode    one chunk, all renditions                  → the next chunk; finish, when it is the last
//	audio     one portion of the sound                   → finish, when it is the last
//	finish    storyboard, MP4                            → index
//	index     makes catalogue and search follow META
//	purge     removes everything of a deleted video
//
// and what a Feature has, whose steps are in its folder. To add a step: declare it in
// workflow.Steps, write its file here and list it in All.
//
// Next: workerrole/internal/media, how a video is cut and encoded.
package step

import (
	"maps"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
)

// Needs is what the steps work with.
type Needs struct {
	Videos  *videostore.Store
	Blobs   *blobstore.Store
	Catalog *catalog.Catalog
	Tool    *ffmpeg.Tool
	Linger  time.Duration // the wait of a purge for workers that were running a step
}

// All returns the steps by the names of their declarations, those of features with them.
func All(n Needs, features []Feature) map[string]pipeline.Step {
	steps := map[string]pipeline.Step{
		workflow.StepProbe:  Probe{n.Tool},
		workflow.StepEncode: Encode{n.Tool},
		workflow.StepAudio:  Audio{n.Tool},
		workflow.StepFinish: Finish{n},
		workflow.StepIndex:  Index{n, features},
		workflow.StepPurge:  Purge{n, features},
	}
	for _, f := range features {
		maps.Copy(steps, f.Steps)
	}
	return steps
}
