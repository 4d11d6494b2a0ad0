package engine

import (
	"encoding/json"
	"time"
)

// State is where a subject is in its life:
//
//	awaiting_upload → uploaded → processing → ready
//	                      └──────────┴──→ failed, cancelled
//	any state → deleting → gone
type State string

// The states, as the API shows them.
const (
	AwaitingUpload State = "awaiting_upload" // metadata is known, not all bytes are: see Meta.Working
	Uploaded       State = "uploaded"        // all parts are there and the first step is promised
	Processing     State = "processing"      // planned: its parts are being made
	Ready          State = "ready"           // everything is written
	Failed         State = "failed"          // Meta.Error says why; retry or reprocess may help
	Cancelled      State = "cancelled"       // stopped by its owner; retry takes it up again
	Deleting       State = "deleting"        // a tombstone: the step on delete removes everything
)

// Terminal reports whether no step is running or promised in this state.
func (s State) Terminal() bool {
	return s == Ready || s == Failed || s == Cancelled
}

// Active reports whether steps may run in this state. A worker that finds a
// subject inactive drops its work quietly.
func (s State) Active() bool { return s == Uploaded || s == Processing }

// Gone reports whether a subject is hidden from all: being deleted, or in an unknown state.
func (s State) Gone() bool { return !s.Terminal() && !s.Active() && s != AwaitingUpload }

// Priority is the user's wish; a step may choose its queue by it (paper row Q5).
type Priority string

// The priorities, as the API shows them.
const (
	High   Priority = "high"
	Normal Priority = "normal"
	Low    Priority = "low"
)

// Meta is what the engine keeps of a subject. The product's document of a subject is a struct
// that embeds it: one row, META, has both.
type Meta struct {
	ID       ID       `json:"id"`
	Owner    string   `json:"owner"`   // may change the subject
	Channel  string   `json:"channel"` // the tenant of fair queueing
	Priority Priority `json:"priority"`

	// Lane is the lane of the queues that the subject's messages travel on, chosen
	// when its upload is complete (paper row Q5).
	Lane int `json:"lane,omitempty"`
	// Bulk: the channel had sent much when the lane was chosen, and others waited, too.
	// The programs of such a subject's steps step back on the processor.
	Bulk bool `json:"bulk,omitempty"`

	State State    `json:"state"`
	Error *Failure `json:"error,omitempty"` // set when State is Failed

	// Playable turns true when something of it can be used before all is ready, and never back.
	Playable bool `json:"playable"`

	SizeBytes int64 `json:"sizeBytes"` // bytes announced, then bytes stored
	// SourceETag is the version of the manifest, and so of the upload. Empty while parts are missing.
	SourceETag string `json:"sourceETag,omitempty"`
	// Upload says how the file comes in parts; nil before the first request for its parts.
	Upload *Upload `json:"upload,omitempty"`
	// GivenUp counts uploads in parts that were given up or refused. Their keys may still
	// write for a while.
	GivenUp int `json:"givenUp,omitempty"`

	// KeyHash is the hash of the Idempotency-Key that made the subject, or empty.
	KeyHash string `json:"keyHash,omitempty"`

	// Made is what steps that run once in a generation left with the subject, of the
	// generation that serves and of the newest.
	Made []Made `json:"made,omitempty"`

	// Generation counts the times the subject was processed, from 1. Blobs and
	// step rows carry it, so that a reprocessing never mixes with what serves now.
	Generation int `json:"generation"`
	// ItemVersion is that of the messages of this generation, whichever release sends them: the
	// newest that has begun one (paper row Q6). 0 is 1.
	ItemVersion int `json:"itemVersion,omitempty"`
	// Items is how many runs the plan of that generation has of the step that leads, and at
	// least 1; 0 until it is planned. It is here for lists, which read no plans.
	Items int `json:"items,omitempty"`
	// Serving is the finished generation that users get while a newer one is made;
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

// Working reports whether steps that make a subject may run: it is active, or work on its upload,
// which goes on, was begun.
func (m Meta) Working() bool {
	return m.State.Active() || m.State == AwaitingUpload && m.Upload != nil && m.Upload.Started
}

// Playing returns the generation that users get: the finished one, else the one being made.
func (m Meta) Playing() int {
	if m.Serving > 0 {
		return m.Serving
	}
	return m.Generation
}

// Made is what one step left with its subject.
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

// Containers. Names are completed with the stack's prefix by azstore. Package azq
// has two more.
const (
	SourcesContainer = "sources" // parts of uploads, and copies of uploads that steps made
	MediaContainer   = "media"   // everything else that workers make
)

// Blob is one version of a blob in container "sources".
type Blob struct {
	Name string `json:"name"`
	ETag string `json:"etag"`
}

// File is a blob in container "media" that the web role serves by step and name.
type File struct {
	Name        string `json:"name"`
	Blob        string `json:"blob"`
	ContentType string `json:"contentType"`
	Bytes       int64  `json:"bytes"`
}

// MadeBy is what a step left with a generation, or false.
func (m Meta) MadeBy(step string, generation int) (Made, bool) {
	for _, made := range m.Made {
		if made.Step == step && made.Generation == generation {
			return made, true
		}
	}
	return Made{}, false
}

// Plan is what the engine keeps of a plan. The product's plan of a generation is a struct that
// embeds it. The first step makes it, and nothing changes it, so any worker can do any part
// (paper row Q16c).
type Plan struct {
	Generation int `json:"generation"`
	// Promises are the steps that this generation has after its first one: what is
	// declared later is not waited for. The commit of the first step sets them.
	Promises []Promise `json:"promises,omitempty"`
}

// Promise is a step that a plan promised: all that a worker needs to know to count
// it and to ask for it, also one of a release without that step (paper row Q6).
type Promise struct {
	Step     string `json:"step"`
	Items    int    `json:"items"`              // how many runs
	Windowed bool   `json:"windowed,omitempty"` // promised some at a time
	Gate     bool   `json:"gate,omitempty"`     // due first: all others wait for it
	Round    int    `json:"round,omitempty"`    // of a gate
	After    bool   `json:"after,omitempty"`    // due when the subject is ready
	Optional bool   `json:"alone,omitempty"`    // fails alone
	Queue    string `json:"queue"`              // base name
}

// Items is how many runs a plan promised of a step.
func (p Plan) Items(step string) int {
	for _, promise := range p.Promises {
		if promise.Step == step {
			return promise.Items
		}
	}
	return 0
}

// A document embeds Meta, and a plan document Plan: no other type has these methods.
type (
	document     interface{ meta() *Meta }
	planDocument interface{ plan() *Plan }
)

func (m *Meta) meta() *Meta { return m }

func (p *Plan) plan() *Plan { return p }

// metaOf is the engine's part of a document. New checks that there is one.
func metaOf[V any](doc *V) *Meta { return any(doc).(document).meta() }

// planOf is the engine's part of a plan.
func planOf[P any](plan P) Plan { return *any(&plan).(planDocument).plan() }
