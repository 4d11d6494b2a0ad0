package catalog

import (
	"fmt"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
)

// Summary is what lists and search results show of a video. It is a copy that the
// last indexing run made.
type Summary struct {
	ID              video.ID         `json:"id"`
	Title           string           `json:"title"`
	Channel         string           `json:"channel"`
	Visibility      video.Visibility `json:"visibility"`
	State           video.State      `json:"state"`
	Playable        bool             `json:"playable"`
	DurationSeconds float64          `json:"durationSeconds"`
	Width           int              `json:"width"`  // pixels as displayed
	Height          int              `json:"height"` // pixels as displayed
	CreatedAt       time.Time        `json:"createdAt"`
	ReadyAt         time.Time        `json:"readyAt,omitzero"`
}

// SummaryOf makes the summary of a video.
func SummaryOf(v video.Video) Summary {
	return Summary{
		ID: v.ID, Title: v.Title, Channel: v.Channel, Visibility: v.Visibility,
		State: v.State, Playable: v.Playable,
		DurationSeconds: v.DurationSeconds, Width: v.Width, Height: v.Height,
		CreatedAt: v.CreatedAt.UTC(), ReadyAt: v.ReadyAt.UTC(),
	}
}

// Props are the properties of a row that carries the summary.
func (s Summary) Props() map[string]any {
	props := map[string]any{
		"Id": string(s.ID), "Title": s.Title, "Channel": s.Channel, "Visibility": string(s.Visibility),
		"State": string(s.State), "Playable": s.Playable,
		"DurationSeconds": s.DurationSeconds, "Width": s.Width, "Height": s.Height,
		"CreatedAt": s.CreatedAt,
	}
	if !s.ReadyAt.IsZero() {
		props["ReadyAt"] = s.ReadyAt
	}
	return props
}

// SummaryFrom reads the summary of a row.
func SummaryFrom(e tablestore.Entity) (Summary, error) {
	id, err := video.ParseID(e.String("Id"))
	if err == nil && !strings.HasSuffix(e.RowKey, tablestore.Separator+string(id)) {
		err = fmt.Errorf("its key is of another video than %s", id)
	}
	return Summary{
		ID: id, Title: e.String("Title"), Channel: e.String("Channel"),
		Visibility: video.Visibility(e.String("Visibility")),
		State:      video.State(e.String("State")), Playable: e.Bool("Playable"),
		DurationSeconds: e.Float("DurationSeconds"), Width: e.Int("Width"), Height: e.Int("Height"),
		CreatedAt: e.Time("CreatedAt"), ReadyAt: e.Time("ReadyAt"),
	}, err
}
