// Package step holds the steps, one file each. workflow.Steps says when each is due, and the
// comment of each what it reads and writes. To add one: declare it in workflow.Steps, write its
// file here and list it in All.
//
// Next: workerrole/internal/media, how a video is cut and encoded.
package step

import (
	"time"

	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/duplicates"
	"github.com/cutroom/cutroom/shared/registrations"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/views"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
)

// Needs is what the steps work with.
type Needs struct {
	Videos  *videostore.Store
	Blobs   *blobstore.Store
	Catalog *catalog.Catalog
	Search  *searchindex.Index
	Races   *registrations.Store
	Views   *views.Counter
	Twins   *duplicates.Index
	Tool    *ffmpeg.Tool
	Linger  time.Duration // the wait of a purge for workers that were running a step
}

// All returns the steps by the names of their declarations.
func All(n Needs) map[string]pipeline.Step {
	return map[string]pipeline.Step{
		workflow.StepProbe:    Probe{n.Tool},
		workflow.StepEncode:   Encode{n.Tool},
		workflow.StepAudio:    Audio{n.Tool},
		workflow.StepFinish:   Finish{n},
		workflow.StepDigest:   Digest{n},
		workflow.StepLoudness: Loudness{n.Tool},
		workflow.StepClip:     Clip{n},
		workflow.StepCaptions: Captions{},
		workflow.StepIndex:    Index{n},
		workflow.StepPurge:    Purge{n},
	}
}
