// Package video holds the words of the domain: a video, how it is cut into chunks and what a
// step produced. Its states are those of package engine.
//
// Reading order: 1 webrole/main.go, 2 this package, 3 shared/azq.
//
// Next: shared/azq, how a request for work travels on a queue.
package video

import (
	"time"

	"github.com/cutroom/cutroom/shared/engine"
)

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

// LocalOwner owns the videos of a stack without sign-in, and of the access token's holders.
const LocalOwner = "local"

// MaxDuration is the longest video that is taken.
const MaxDuration = 4 * time.Hour

// Video is the truth about one video: the META row of table "videos".
type Video struct {
	engine.Meta

	Title       string     `json:"title"`
	Description string     `json:"description"`
	Actors      []string   `json:"actors"`
	Directors   []string   `json:"directors"`
	Tags        []string   `json:"tags"`
	Visibility  Visibility `json:"visibility"`

	Fingerprint string `json:"fingerprint,omitempty"` // the uploader's mark for the same file
	Race        *Race  `json:"race,omitempty"`        // the event that it shows; nil for most

	DurationSeconds float64     `json:"durationSeconds"`
	Width           int         `json:"width"`  // pixels as displayed, after rotation
	Height          int         `json:"height"` // pixels as displayed, after rotation
	FPS             Rational    `json:"fps"`
	Renditions      []Rendition `json:"renditions"`

	// Notices are what the newest generation lacks of its source.
	Notices []Notice `json:"notices,omitempty"`
}

// Race ties a video to an event, so that finishers are found in it (paper row T7).
type Race struct {
	Event        string    `json:"event"`        // "<event>__<distance>", see registrations.ParseEvent
	FirstFrameAt time.Time `json:"firstFrameAt"` // wall-clock time of the first frame
}

// Rendition is one rung of the ladder.
type Rendition struct {
	Name    string `json:"name"`    // "720p": the short side; part of URLs and blob names
	Width   int    `json:"width"`   // pixels, even
	Height  int    `json:"height"`  // pixels, even
	MaxRate int    `json:"maxRate"` // bits per second, the VBV ceiling
}

// Searchable reports whether the search finds a video: it is public and ready. A
// video that is being reprocessed still plays its old generation and is found.
func (v Video) Searchable() bool {
	return v.Visibility == Public && !v.State.Gone() && (v.State == engine.Ready || v.Serving > 0)
}
