// Package video holds the words of the domain: a video, its states, how it is cut into chunks
// and what a step produced. It uses the standard library only, and all packages may import it.
//
// Reading order: 1 webrole/main.go, 2 this package, 3 shared/azq.
//
// Next: shared/azq, how a request for work travels on a queue.
package video

import (
	"encoding/json"
	"time"
)

// State is where a video is in its life:
//
//	awaiting_upload → uploaded → processing → ready
//	                      └──────────┴──→ failed, cancelled
//	any state → deleting → gone
type State string

// The states, as the API shows them.
const (
	AwaitingUpload State = "awaiting_upload" // metadata is known, not all bytes are: see Video.Working
	Uploaded       State = "uploaded"        // all parts are there and a probe is promised
	Processing     State = "processing"      // probed: chunks are planned and being encoded
	Ready          State = "ready"           // everything is written
	Failed         State = "failed"          // Video.Error says why; retry or reprocess may help
	Cancelled      State = "cancelled"       // stopped by its owner; retry takes it up again
	Deleting       State = "deleting"        // a tombstone: the purge step removes everything
)

// Terminal reports whether no step is running or promised in this state.
func (s State) Terminal() bool {
	return s == Ready || s == Failed || s == Cancelled
}

// Active reports whether steps may run in this state. A worker that finds a
// video inactive drops its work quietly.
func (s State) Active() bool { return s == Uploaded || s == Processing }

// Gone reports whether a video is hidden from all: being deleted, or in an unknown state.
func (s State) Gone() bool { return !s.Terminal() && !s.Active() && s != AwaitingUpload }

// Visibility says which users may find a video.
type Visibility string

// Public videos are listed and searched. Unlisted and private ones are not.
const (
	Public   Visibility = "public"
	Unlisted Visibility = "unlisted"
	Private  Visibility = "private"
)

// Linked reports whether anyone who has a video's address may see it. An unknown one is private.
func (v Visibility) Linked() bool { return v == Public || v == Unlisted }

// Priority is the user's wish; it chooses the encode queue (paper row Q5).
type Priority string

// The priorities, as the API shows them.
const (
	High   Priority = "high"
	Normal Priority = "normal"
	Low    Priority = "low"
)

// LocalOwner owns the videos of a stack without sign-in, and of the access token's holders.
const LocalOwner = "local"

// MaxCaptions bounds a file of captions, in bytes. A film's has about 100 KB.
const MaxCaptions = 1 << 20

// MaxDuration is the longest video that is taken.
const MaxDuration = 4 * time.Hour

// Video is the truth about one video: the META row of table "videos".
type Video struct {
	ID          ID         `json:"id"`
	Title       string     `json:"title"`
	Description string     `json:"description"`
	Actors      []string   `json:"actors"`
	Directors   []string   `json:"directors"`
	Tags        []string   `json:"tags"`
	Channel     string     `json:"channel"`
	Visibility  Visibility `json:"visibility"`
	Priority    Priority   `json:"priority"`

	// Lane is the lane of the queues that the video's messages travel on, chosen
	// when its upload is complete (paper row Q5).
	Lane int `json:"lane,omitempty"`
	// Bulk: the channel had sent much when the lane was chosen, and others waited, too.
	// The encoders of such a video step back on the processor.
	Bulk bool `json:"bulk,omitempty"`

	State State    `json:"state"`
	Error *Failure `json:"error,omitempty"` // set when State is Failed

	// Playable turns true when the first chunk can be watched, and never back.
	Playable bool `json:"playable"`

	SizeBytes   int64  `json:"sizeBytes"`             // bytes announced, then bytes stored
	Fingerprint string `json:"fingerprint,omitempty"` // the uploader's mark for the same file
	// SourceETag is the version of the manifest, and so of the upload. Empty while parts are missing.
	SourceETag string `json:"sourceETag,omitempty"`
	// Upload says how the file comes in parts; nil before the first request for its parts.
	Upload *Upload `json:"upload,omitempty"`
	// GivenUp counts uploads in parts that were given up or refused. Their keys may still
	// write for a while.
	GivenUp int `json:"givenUp,omitempty"`

	// Owner may change the video, and see it when it is private.
	Owner string `json:"owner"`

	// KeyHash is the hash of the Idempotency-Key that made the video, or empty.
	KeyHash string `json:"keyHash,omitempty"`

	Race *Race `json:"race,omitempty"` // the event that it shows; nil for most

	DurationSeconds float64     `json:"durationSeconds"`
	Width           int         `json:"width"`  // pixels as displayed, after rotation
	Height          int         `json:"height"` // pixels as displayed, after rotation
	FPS             Rational    `json:"fps"`
	Renditions      []Rendition `json:"renditions"`

	// Notices are what the newest generation lacks of its source.
	Notices []Notice `json:"notices,omitempty"`

	// Made is what steps that run once in a generation left with the video, of the
	// generation that plays and of the newest.
	Made []Made `json:"made,omitempty"`

	// Generation counts the times the video was processed, from 1. Blobs and
	// step rows carry it, so that a reprocessing never mixes with what plays now.
	Generation int `json:"generation"`
	// Chunks is how many chunks the plan of that generation has; 0 until it is
	// planned. It is here for lists, which read no plans.
	Chunks int `json:"chunks,omitempty"`
	// Serving is the finished generation that plays while a newer one is made;
	// 0 until the first is ready.
	Serving int `json:"serving"`

	CreatedAt  time.Time `json:"createdAt"`
	UploadedAt time.Time `json:"uploadedAt,omitzero"`
	ReadyAt    time.Time `json:"readyAt,omitzero"`
	UpdatedAt  time.Time `json:"updatedAt"`
}

// Upload is a file that comes in parts: see package sourceparts.
type Upload struct {
	Bytes     int64  `json:"bytes"`     // of the whole file
	PartBytes int64  `json:"partBytes"` // of each part but the last
	Epoch     string `json:"epoch"`     // part of the parts' names
	// Started says that work on it was promised before all of it was there.
	Started bool `json:"begun,omitempty"`
	// PriorityParts are numbers of parts that this work misses: they are to be sent first.
	PriorityParts []int `json:"wants,omitempty"`
	// ProbeTries counts how often the first step missed parts.
	ProbeTries int `json:"looks,omitempty"`
}

// Race ties a video to an event, so that finishers are found in it (paper row T7).
type Race struct {
	Event        string    `json:"event"`        // "<event>__<distance>", see registrations.ParseEvent
	FirstFrameAt time.Time `json:"firstFrameAt"` // wall-clock time of the first frame
}

// Working reports whether steps that make a video may run: it is active, or work on its upload,
// which goes on, was begun.
func (v Video) Working() bool {
	return v.State.Active() || v.State == AwaitingUpload && v.Upload != nil && v.Upload.Started
}

// Playing returns the generation that playback shows: the finished one, else the one being made.
func (v Video) Playing() int {
	if v.Serving > 0 {
		return v.Serving
	}
	return v.Generation
}

// Rendition is one rung of the ladder.
type Rendition struct {
	Name    string `json:"name"`    // "720p": the short side; part of URLs and blob names
	Width   int    `json:"width"`   // pixels, even
	Height  int    `json:"height"`  // pixels, even
	MaxRate int    `json:"maxRate"` // bits per second, the VBV ceiling
}

// Made is what one step left with its video.
type Made struct {
	Step       string          `json:"step"`
	Generation int             `json:"generation"`
	Files      []File          `json:"files,omitempty"`
	Facts      json.RawMessage `json:"facts,omitempty"` // an object, at most MaxFacts bytes
}

// Bounds on what one step leaves, for all of it is in one property.
const (
	MaxFiles = 8
	MaxFacts = 1024 // bytes
)

// File is a blob in container "media" that the web role serves by step and name.
type File struct {
	Name        string `json:"name"`
	Blob        string `json:"blob"`
	ContentType string `json:"contentType"`
	Bytes       int64  `json:"bytes"`
}

// MadeBy is what a step left with a generation, or false.
func (v Video) MadeBy(step string, generation int) (Made, bool) {
	for _, m := range v.Made {
		if m.Step == step && m.Generation == generation {
			return m, true
		}
	}
	return Made{}, false
}

// SetMade replaces what a step left with a generation, and forgets what neither plays nor is new.
func (v *Video) SetMade(made Made) {
	kept := []Made{made}
	for _, m := range v.Made {
		if (m.Step != made.Step || m.Generation != made.Generation) && (m.Generation == v.Serving || m.Generation == v.Generation) {
			kept = append(kept, m)
		}
	}
	v.Made = kept
}
