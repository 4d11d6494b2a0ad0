// Package step holds the steps, one file each, in the order in which they run:
//
//	probe     finds out what it is, makes the plan       → encode, audio
//	encode    one chunk, all renditions                  → the next chunk; finish, when it is the last
//	audio     one portion of the sound                   → finish, when it is the last
//	finish    storyboard, MP4                            → digest, loudness, index
//	digest    finds an upload of the same video, when the video is ready
//	loudness  measures the sound of a video that is ready
//	clip      a short MP4, on request
//	captions  clean WebVTT of an uploaded file
//	index     makes catalogue and search follow META
//	purge     removes everything of a deleted video
//
// To add a step: declare it in workflow.Steps, write its file here and list it in All.
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
