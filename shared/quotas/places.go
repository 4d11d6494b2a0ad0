package quotas

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
)

const (
	// sweepEvery is the pause between two sweeps of a full ledger by one process.
	sweepEvery = time.Second
	// unpromised is how long a place is kept whose work is not promised: its request may
	// still be in progress.
	unpromised = time.Minute

	// EscapeKey writes digits after "!", so no owner has these keys.
	allClips         = "!clips"
	allReprocessings = "!reprocessings"
)

// MaxOpen is the largest limit of work that is open at once.
const MaxOpen = 500

// bound is how many places a ledger has, and the error when they are taken.
type bound struct {
	ledger string
	most   int64 // 0: no limit
	full   error
}

// TakePlace takes a place for work on request, such as a clip, of which so many may be open: of
// the video, of the requester, and of all together; or for a reprocessing. ErrBusy, or an *Error
// of the requester: then nothing is taken. Safe to repeat.
func (l *Ledger) TakePlace(ctx context.Context, asker string, work engine.Key) error {
	bounds := []bound{{allReprocessings, l.limits.Reprocessings, ErrBusy}}
	if work.OnRequest() {
		if most := l.limits.ClipsOfVideo; most > 0 {
			if full, err := l.videos.HasRequests(ctx, work.ID, work.Step, engine.IsOpen, most); full || err != nil {
				return cmp.Or(err, ErrBusy)
			}
		}
		mine := l.limits.of(asker).Clips
		bounds = []bound{{ledgerOf(asker), mine, &Error{Name: Clips, Limit: mine}}, {allClips, l.limits.Clips, ErrBusy}}
	}
	var taken []tablestore.Entity
	for _, b := range bounds {
		place, err := l.take(ctx, b, work)
		taken = append(taken, place)
		if err == nil {
			continue
		}
		for _, place := range taken {
			if place.ETag != "" {
				_ = l.rows.Delete(ctx, place.PartitionKey, place.RowKey, place.ETag) // or it is swept later
			}
		}
		return err
	}
	return nil
}

// take takes a place in a ledger, or returns the error of the bound: then the place is to be given
// back, if this call has inserted it: it has an ETag. The end of work does not write here, so a
// place stays until the ledger is full or the video is purged.
//
// The place is inserted before the others are counted, so there are never too many. Of
// requests to several processes at once, one too many may be refused. A place that is there
// already may be of a request that was refused or cut off, so it is counted again.
func (l *Ledger) take(ctx context.Context, b bound, work engine.Key) (place tablestore.Entity, err error) {
	if b.most == 0 {
		return place, nil
	}
	lock := l.lockOf(b.ledger)
	lock.Lock()
	defer lock.Unlock()
	place = tablestore.Entity{PartitionKey: b.ledger, RowKey: workPlaces + work.ItemID()}
	place.ETag, err = l.rows.Insert(ctx, place)
	if errors.Is(err, tablestore.ErrExists) {
		_, err = l.rows.Upsert(ctx, place) // its time is that of the latest request
	}
	if err != nil {
		return place, err
	}
	others, err := l.rows.First(ctx, tablestore.Query{
		PartitionKey: b.ledger, RowFrom: workPlaces, RowTo: tablestore.PrefixEnd(workPlaces), Class: tablestore.RowRange,
	}, 2*MaxOpen)
	others = slices.DeleteFunc(others, func(other tablestore.Entity) bool { return other.RowKey == place.RowKey })
	if int64(len(others)) >= b.most && time.Since(lock.swept) >= sweepEvery {
		lock.swept = time.Now()
		others = slices.DeleteFunc(others, func(other tablestore.Entity) bool {
			return !l.goesOn(ctx, other) && l.rows.Delete(ctx, other.PartitionKey, other.RowKey, other.ETag) == nil
		})
	}
	if err == nil && int64(len(others)) >= b.most {
		err = b.full
	}
	return place, err
}

// leavePlaces gives back those of all work on a video that is purged. A requester's own are
// swept when that ledger is full.
func (l *Ledger) leavePlaces(ctx context.Context, id engine.ID) error {
	prefix := workPlaces + string(id) + "."
	for _, ledger := range []string{allClips, allReprocessings} {
		_, err := l.rows.Clear(ctx, tablestore.Query{
			PartitionKey: ledger, RowFrom: prefix, RowTo: tablestore.PrefixEnd(prefix), Class: tablestore.RowRange,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// goesOn reports whether the work of a place has not ended, or cannot be looked at: two point
// reads at most.
func (l *Ledger) goesOn(ctx context.Context, place tablestore.Entity) bool {
	work, err := l.videos.ParseItemID(strings.TrimPrefix(place.RowKey, workPlaces))
	if err != nil {
		return false // not ours
	}
	rec, err := l.videos.Get(ctx, work.ID)
	var clip engine.Run
	if err == nil && work.OnRequest() {
		clip, err = l.videos.ReadRun(ctx, work)
	}
	switch m := rec.Subject.Meta; {
	case errors.Is(err, engine.ErrNotFound):
		return false
	case errors.Is(err, engine.ErrNoRun), err == nil && m.Generation < work.Generation:
		return time.Since(place.Timestamp) < unpromised
	case err != nil:
		return true
	case work.OnRequest():
		return !clip.Ended(l.videos.StepOf(work))
	default:
		return m.Generation == work.Generation && m.State.Active()
	}
}
