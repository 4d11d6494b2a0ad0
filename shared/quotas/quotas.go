// Package quotas bounds what owners, and all together, have of what is limited. The bounds hold
// however many requests ask several web roles for the last place at once.
//
// Next: webrole/internal/feature/quotas, their settings and what clients are told.
package quotas

import (
	"errors"
	"fmt"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
)

// Quota is what one owner may have. 0 is no limit.
type Quota struct {
	StoredBytes int64 // of uploads, announced or here
	Waiting     int64 // videos that are announced, or being processed
	Minutes     int64 // of video that are processed in a day of UTC
	Clips       int64 // in progress, by requester
}

// Limits are the quotas of a stack. 0 is no limit.
type Limits struct {
	ClipsOfVideo  int   // open clips of one video
	Clips         int64 // open clips of all videos
	Reprocessings int64 // that are open; a retry is not counted
	Owner         Quota // of each owner but the next
	Local         Quota // of video.LocalOwner
}

func (l Limits) of(owner string) Quota {
	if owner == video.LocalOwner {
		return l.Local
	}
	return l.Owner
}

// The names of quotas, as problems show them.
const (
	Stored  = "stored_bytes"
	Waiting = "videos_waiting"
	Minutes = "minutes_a_day"
	Clips   = "clips_waiting"
)

// Error says that an owner has no room for what was asked for, as problems show it. Nothing was
// done.
type Error struct {
	Name  string `json:"name"` // of the quota
	Limit int64  `json:"limit"`
	Left  int64  `json:"left"` // how much may still be asked for: 0 or more
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("quota %s of %d is used up but for %d", e.Name, e.Limit, e.Left)
}

// Is says that nothing was taken.
func (e *Error) Is(target error) bool { return target == engine.ErrRefused }

// ErrBusy says that as much is open as may be, of all together. Asking again in some seconds
// may help.
var ErrBusy = errors.New("too much of this work is waiting already")

// exceededBy returns an *Error when the change from before to after takes more of something
// than the quota allows. What stays equal or shrinks is always allowed, also when it is
// over a quota that was lowered meanwhile.
func (q Quota) exceededBy(before, after row) error {
	seconds := after.Seconds
	if after.Videos > before.Videos { // how long a new one is, is not known yet: any second that is left lets it in
		seconds = max(seconds, before.Seconds+1)
	}
	for _, c := range []struct {
		name                       string
		limit, unit, before, after int64
	}{
		{Waiting, q.Waiting, 1, before.Waiting, after.Waiting},
		{Stored, q.StoredBytes, 1, before.Bytes, after.Bytes},
		{Minutes, q.Minutes, 60, before.Seconds, seconds},
	} {
		if most := c.limit * c.unit; most > 0 && c.after > most && c.after > c.before {
			return &Error{Name: c.name, Limit: c.limit, Left: max(0, most-c.before) / c.unit}
		}
	}
	return nil
}
