package registrations

import (
	"context"
	"slices"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/indexrows"
	"github.com/cutroom/cutroom/shared/video"
)

const (
	videoPrefix  = "VIDEO:"
	referenceRow = "REF"
)

// CheckRace reads the event of a race and checks the time of the first frame,
// which has to have 13 digits of milliseconds. The error is an *Invalid.
func CheckRace(race video.Race) (Event, error) {
	event, err := ParseEvent(race.Event)
	if err == nil && (race.FirstFrameAt.Before(firstTime) || race.FirstFrameAt.After(lastTime)) {
		err = invalid(InvalidEvent, "the first frame is at a time between %d and %d", firstTime.Year(), lastTime.Year())
	}
	return event, err
}

// rowsOf is one row for a public video that shows a race.
func rowsOf(v video.Video) []indexrows.Row {
	if v.Race == nil || !v.Searchable() {
		return nil
	}
	event, err := CheckRace(*v.Race)
	if err != nil {
		return nil // such a video is tied to nothing
	}
	return []indexrows.Row{{Table: Table, Entity: tablestore.Entity{
		PartitionKey: string(event), RowKey: videoKey(v.Race.FirstFrameAt) + tablestore.Separator + string(v.ID),
		Props: tablestore.Props(footage{v.ID, v.Race.FirstFrameAt.UTC(), v.DurationSeconds}),
	}}}
}

// videoKey sorts by time: how the keys of videos begin that start at t.
func videoKey(t time.Time) string { return videoPrefix + tablestore.Pad(max(t.UnixMilli(), 0), 13) }

// Moment is where a video shows a finish.
type Moment struct {
	VideoID engine.ID
	At      time.Duration // from the first frame
}

// MomentsOf returns, for each runner of a list, the moments at which videos of the
// event show the finish, in the order of the videos' first frames; none without a
// finish. One row range for all (T5), of as many rows as the event has videos that
// began between video.MaxDuration before the first finish and the last. The rows
// are a copy, as old as the last indexing run: read the video before you show it.
func (s *Store) MomentsOf(ctx context.Context, event Event, list []Registration) ([][]Moment, error) {
	moments := make([][]Moment, len(list))
	finished := slices.DeleteFunc(slices.Clone(list), func(r Registration) bool { return r.FinishedAt.IsZero() })
	if len(finished) == 0 {
		return moments, nil
	}
	byFinish := func(a, b Registration) int { return a.FinishedAt.Compare(b.FinishedAt) }
	first, last := slices.MinFunc(finished, byFinish).FinishedAt, slices.MaxFunc(finished, byFinish).FinishedAt
	var shown []footage
	query := tablestore.Query{
		PartitionKey: string(event), Class: tablestore.RowRange, Read: tablestore.Into(&shown, readFootage),
		RowFrom: videoKey(first.Add(-video.MaxDuration)), RowTo: videoKey(last.Add(time.Millisecond)),
	}
	for _, err := range s.rows.Query(ctx, query) {
		if err != nil {
			return nil, err
		}
	}
	for _, v := range shown {
		for i, r := range list {
			at := r.FinishedAt.Sub(v.FirstFrameAt)
			if !r.FinishedAt.IsZero() && at >= 0 && at.Seconds() < v.DurationSeconds {
				moments[i] = append(moments[i], Moment{VideoID: v.ID, At: at})
			}
		}
	}
	return moments, nil
}

// footage is a row that ties a video to an event.
type footage struct {
	ID              engine.ID `row:"Id"`
	FirstFrameAt    time.Time
	DurationSeconds float64
}

func readFootage(row tablestore.Entity) (f footage, _ error) {
	err := row.Struct(&f)
	if err == nil {
		_, err = engine.ParseID(string(f.ID))
	}
	return f, err
}
