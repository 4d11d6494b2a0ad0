package registrations

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/indexrows"
	"github.com/cutroom/cutroom/shared/video"
)

var raceDay = time.Date(2011, 11, 6, 9, 40, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return raceDay.Add(d) }

func film(title, event string, from time.Time, length time.Duration) video.Video {
	return video.Video{
		Meta: engine.Meta{ID: engine.NewID(), State: engine.Ready, Serving: 1}, Title: title,
		Visibility: video.Public, DurationSeconds: length.Seconds(),
		Race: &video.Race{Event: event, FirstFrameAt: from},
	}
}

func is(v video.Video) indexrows.Current {
	return func(context.Context) (video.Video, bool, error) { return v, true, nil }
}

func (r *race) tie(v video.Video) {
	r.t.Helper()
	if err := r.Sync(r.t.Context(), v.ID, is(v)); err != nil {
		r.t.Fatal(err)
	}
}

// Finishers are found in the videos that show them, with one row range.
func TestMoments(t *testing.T) {
	t.Parallel()
	r := newCalmRace(t)
	finishLine := film("Finish line", newYork, at(2*time.Hour), 90*time.Minute)
	longest := film("All of it", newYork, at(0), video.MaxDuration)
	private := film("Private", newYork, at(2*time.Hour), time.Hour)
	private.Visibility = video.Private
	unready := film("Not ready", newYork, at(2*time.Hour), time.Hour)
	unready.State, unready.Serving = engine.Processing, 0
	for _, v := range []video.Video{
		finishLine, longest, private, unready,
		film("Half marathon", "2011 New York City Marathon__Half", at(2*time.Hour), time.Hour), film("No such event", "nothing", at(2*time.Hour), time.Hour),
		film("Yesterday", newYork, at(-24*time.Hour), 4*time.Hour), {
			Meta: engine.Meta{ID: engine.NewID(), State: engine.Ready}, Title: "No race",
			Visibility: video.Public,
		},
	} {
		r.tie(v)
	}
	for name, c := range map[string]struct {
		finish time.Time
		want   []Moment
	}{
		"in two videos": {at(3 * time.Hour), []Moment{{longest.ID, 3 * time.Hour}, {finishLine.ID, time.Hour}}},
		"first frame":   {at(0), []Moment{{longest.ID, 0}}},
		"last moment":   {at(4*time.Hour - time.Millisecond), []Moment{{longest.ID, 4*time.Hour - time.Millisecond}}},
		"after the end": {at(4 * time.Hour), nil},
		"before":        {at(-time.Millisecond), nil},
		"no finish":     {time.Time{}, nil},
	} {
		ctx, meter := azstore.WithCounter(t.Context())
		got, err := r.MomentsOf(ctx, marathonKey, []Registration{{Event: marathonKey, Bib: 1, FinishedAt: c.finish}})
		if diff := cmp.Diff([][]Moment{c.want}, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
		if n := meter.ByClass(tablestore.RowRange); n != meter.Requests() || (n != 1) != c.finish.IsZero() {
			t.Errorf("%s: %d requests, %d of them row ranges", name, meter.Requests(), n)
		}
	}
	ctx, meter := azstore.WithCounter(t.Context())
	got, err := r.MomentsOf(ctx, marathonKey, []Registration{{FinishedAt: at(3 * time.Hour)}, {}, {FinishedAt: at(time.Hour)}})
	if err != nil || len(got) != 3 || len(got[0]) != 2 || len(got[1]) != 0 || len(got[2]) != 1 || meter.Requests() != 1 {
		t.Errorf("of a page: %v in %d requests, %v", got, meter.Requests(), err)
	}
}

// A video that moves to another time or event, or that goes, leaves nothing behind.
func TestVideoRowsFollow(t *testing.T) {
	t.Parallel()
	r := newRace(t)
	v := film("Finish", newYork, raceDay, time.Hour)
	r.tie(v)
	first := "VIDEO:1320572400000__" + string(v.ID)
	if diff := cmp.Diff([]string{first}, r.keys()); diff != "" {
		t.Fatalf("rows (-want +got):\n%s", diff)
	}
	v.Race = &video.Race{Event: newYork, FirstFrameAt: at(time.Second)}
	r.tie(v)
	if diff := cmp.Diff([]string{"VIDEO:1320572401000__" + string(v.ID)}, r.keys()); diff != "" {
		t.Errorf("after a new time (-want +got):\n%s", diff)
	}
	v.Race = &video.Race{Event: "another__10k", FirstFrameAt: raceDay}
	r.tie(v)
	if got := r.keys(); len(got) != 0 {
		t.Errorf("after another event: %q", got)
	}
	v.Race = nil
	r.tie(v)
	for row, err := range r.rows.Query(t.Context(), tablestore.Query{}) {
		t.Errorf("an untied video has row %s/%s, %v", row.PartitionKey, row.RowKey, err)
	}
	v.Race = &video.Race{Event: newYork, FirstFrameAt: raceDay}
	r.tie(v)
	if err := r.Remove(t.Context(), v.ID); err != nil {
		t.Error(err)
	}
	for row, err := range r.rows.Query(t.Context(), tablestore.Query{}) {
		t.Errorf("a removed video has row %s/%s, %v", row.PartitionKey, row.RowKey, err)
	}
}

// A worker dies at every request of a move to another event (T8).
func TestCrashWhileAVideoMoves(t *testing.T) {
	azuritetest.Slow(t, "makes thousands of requests")
	t.Parallel()
	for died := 0; ; died++ {
		r := newRace(t)
		v := film("Finish", newYork, raceDay, time.Hour)
		r.tie(v)
		v.Race = &video.Race{Event: "another__10k", FirstFrameAt: raceDay}
		dying, _ := r.faulty(azstore.Retry{Strategy: azstore.NoRetry}, inject.DiesAt(died, inject.Reset))
		failed := dying.Sync(t.Context(), v.ID, is(v)) != nil
		r.Keeper.Now = func() time.Time { return time.Now().Add(2 * indexrows.Expiry) }
		r.tie(v)
		if got := r.keys(); len(got) != 0 {
			t.Errorf("died at request %d: the old event still has %q", died, got)
		}
		moments, err := r.MomentsOf(t.Context(), "another__10k", []Registration{{Event: "another__10k", FinishedAt: raceDay}})
		if err != nil || len(moments[0]) != 1 {
			t.Errorf("died at request %d: the new event has %v, %v", died, moments, err)
		}
		if !failed {
			if died < 4 {
				t.Errorf("only %d requests in a move", died)
			}
			return
		}
	}
}

func TestCheckRace(t *testing.T) {
	t.Parallel()
	for race, ok := range map[video.Race]bool{
		{Event: newYork, FirstFrameAt: raceDay}: true,
		{Event: newYork}:                        false,
		{Event: newYork, FirstFrameAt: time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)}: false,
		{Event: "New York", FirstFrameAt: raceDay}:                                  false,
	} {
		var bad *Invalid
		if _, err := CheckRace(race); (err == nil) != ok || !ok && !errors.As(err, &bad) {
			t.Errorf("%+v: %v", race, err)
		}
	}
}
