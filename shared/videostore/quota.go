package videostore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
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
	ClipsOfVideo  int   // open clips of one video: see ReservePlace
	Clips         int64 // open clips of all videos
	Reprocessings int64 // that are open; a retry is not counted
	Owner         Quota // of each owner but the next
	Local         Quota // of video.LocalOwner
}

// SetLimits is for the role that takes requests. Call it before the store is used.
func (s *Store) SetLimits(l Limits) { s.limits = l }

func (l Limits) quotaOf(owner string) Quota {
	if owner == video.LocalOwner {
		return l.Local
	}
	return l.Owner
}

// The names of quotas, as problems show them.
const (
	QuotaStored  = "stored_bytes"
	QuotaWaiting = "videos_waiting"
	QuotaMinutes = "minutes_a_day"
	QuotaClips   = "clips_waiting"
)

// QuotaError says that an owner has no room for what was asked for. Nothing was done.
type QuotaError struct {
	Quota string // its name
	Limit int64
	Left  int64 // how much may still be asked for: 0 or more
}

// Error implements error.
func (e *QuotaError) Error() string {
	return fmt.Sprintf("quota %s of %d is used up but for %d", e.Quota, e.Limit, e.Left)
}

// Is says that nothing was taken.
func (e *QuotaError) Is(target error) bool { return target == engine.ErrRefused }

// ErrBusy says that as much is open as may be, of all together. Asking again in some seconds
// may help.
var ErrBusy = errors.New("too much of this work is waiting already")

// exceededBy returns a *QuotaError when the change from before to after takes more of something
// than the quota allows. What stays equal or shrinks is always allowed, also when it is
// over a quota that was lowered meanwhile.
func (q Quota) exceededBy(before, after ledgerRow) *QuotaError {
	for _, c := range []struct {
		name                 string
		limit, before, after int64
	}{
		{QuotaWaiting, q.Waiting, before.Waiting, after.Waiting},
		{QuotaStored, q.StoredBytes, before.Bytes, after.Bytes},
	} {
		if c.limit > 0 && c.after > c.limit && c.after > c.before {
			return &QuotaError{Quota: c.name, Limit: c.limit, Left: max(0, c.limit-c.before)}
		}
	}
	used, limit := before.Seconds, q.Minutes*60
	if after.Day != before.Day {
		used = 0
	}
	// How long a video is, is not known before it is probed. So a new one is let in while
	// any minutes are left.
	begins := after.Videos > before.Videos
	if limit > 0 && (begins && used >= limit || after.Seconds > used && after.Seconds > limit) {
		return &QuotaError{Quota: QuotaMinutes, Limit: q.Minutes, Left: max(0, (limit-used)/60)}
	}
	return nil
}

// maxOwnerKey bounds the owner in a key, in bytes. Longer ones are hashed.
const maxOwnerKey = 200

func ledgerOf(owner string) string {
	if key := tablestore.EscapeKey(owner); len(key) <= maxOwnerKey && key != "" {
		return key
	}
	sum := sha256.Sum256([]byte(owner))
	return "!~" + hex.EncodeToString(sum[:])
}

// Reserve takes what a video needs from its owner's quota, or returns a *QuotaError and
// takes nothing. v is the video as it will be. Safe to repeat.
func (s *Store) Reserve(ctx context.Context, v video.Video) error {
	_, err := s.count(ctx, v, s.limits.quotaOf(v.Owner), func(context.Context) (video.Video, error) { return v, nil })
	return err
}

// CountOwned makes what is counted for a video's owner follow META, and removes the line and the
// places when there is no META: the request died before it wrote one, or the video was purged.
// Several may run at once, in any order: each reads META again after it has written, so
// the last one leaves the sums right. Safe to repeat.
func (s *Store) CountOwned(ctx context.Context, id engine.ID) error {
	meta := func(ctx context.Context) (video.Video, error) {
		rec, err := s.Get(ctx, id)
		return rec.Subject, err
	}
	for wrote := true; wrote; {
		v, err := meta(ctx)
		if errors.Is(err, engine.ErrNotFound) { // its mark says whose it was
			var mark engine.Inflight
			mark, err = s.InflightMark(ctx, id)
			err = errors.Join(err, s.leavePlaces(ctx, id))
			v.ID, v.Owner, v.CreatedAt = id, mark.Owner, mark.CreatedAt
		}
		if err != nil || v.Owner == "" {
			return err
		}
		if wrote, err = s.count(ctx, v, Quota{}, meta); err != nil {
			return err
		}
	}
	return nil
}

// Reprocess is that of the engine, for as many as may be open: ErrBusy.
func (s *Store) Reprocess(ctx context.Context, id engine.ID) (Record, error) {
	rec, err := s.Get(ctx, id)
	if err == nil && !rec.Subject.MayReprocess() {
		err = engine.ErrState
	}
	if err == nil {
		next := rec.Subject.Meta
		next.Generation++
		_, err = s.takePlace(ctx, allReprocessings, s.FirstMessage(next).Key, s.limits.Reprocessings, ErrBusy)
	}
	if err != nil {
		return Record{}, err
	}
	return s.Store.Reprocess(ctx, id)
}

// lineOf is what a video takes, given the line that there is. seconds are of a
// generation that is not counted yet, and whose length is known.
func lineOf(v video.Video, old ledgerRow) (want ledgerRow, seconds int64) {
	want = ledgerRow{Bytes: v.SizeBytes, Videos: 1, Generation: old.Generation, etag: old.etag}
	if v.State == engine.AwaitingUpload || v.State.Active() {
		want.Waiting = 1
		if v.SizeBytes == 0 { // what arrives was reserved when it began
			want.Bytes = old.Bytes
		}
	}
	if v.DurationSeconds > 0 && v.Generation > old.Generation {
		want.Generation, seconds = v.Generation, int64(math.Ceil(v.DurationSeconds))
	}
	return want, seconds
}

// ReservePlace takes a place for work on request, such as a clip, of which so many may be open: of
// the video, of the requester, and of all together. With again only the video's are counted.
// ErrBusy, or a *QuotaError of the requester.
func (s *Store) ReservePlace(ctx context.Context, asker string, clip engine.Key, again bool) error {
	if most := s.limits.ClipsOfVideo; most > 0 {
		if full, err := s.HasRequests(ctx, clip.ID, clip.Step, engine.IsOpen, most); full || err != nil {
			return cmp.Or(err, ErrBusy)
		}
	}
	if again {
		return nil
	}
	mine, limit := ledgerOf(asker), s.limits.quotaOf(asker).Clips
	took, err := s.takePlace(ctx, mine, clip, limit, &QuotaError{Quota: QuotaClips, Limit: limit})
	if err != nil {
		return err
	}
	_, err = s.takePlace(ctx, allClips, clip, s.limits.Clips, ErrBusy)
	if err != nil && took {
		err = errors.Join(err, s.leavePlace(ctx, mine, clip))
	}
	return err
}

// Owned returns a page of an owner's videos, newest first, whatever their visibility
// and state: a row range (T5). next continues it and is empty at the end;
// tablestore.ErrToken for a token that is not ours.
func (s *Store) Owned(ctx context.Context, owner string, limit int, token string) (ids []engine.ID, next string, err error) {
	_, next, err = s.quotas.Page(ctx, tablestore.Query{
		PartitionKey: ledgerOf(owner), RowFrom: videoLines, RowTo: tablestore.PrefixEnd(videoLines),
		PageSize: int32(limit), Class: tablestore.RowRange, Read: tablestore.Into(&ids, readOwned),
	}, token)
	return ids, next, err
}

func readOwned(row tablestore.Entity) (engine.ID, error) {
	_, id, _ := strings.Cut(row.RowKey, tablestore.Separator)
	return engine.ParseID(id)
}

// QuotasTable says how much is taken of what is limited: docs/data-model.md has its keys. A
// partition is a ledger. An owner may have very many videos, so one entity-group transaction
// changes the sums and a line (T2), on the condition that the sums are as they were read. Of
// requested work there is little at once, so its places are counted. Both are written before
// what they are for. When the request dies in between, the reconciler removes the line of a
// video, whose mark in table "inflight" it finds, and a place goes when the ledger is full.
const QuotasTable = "quotas"

const (
	sumsKey    = "SUMS"
	videoLines = "VIDEO:"
	workPlaces = "WORK:"

	// sweepEvery is the pause between two sweeps of a full ledger by one process.
	sweepEvery = time.Second
	// maxPlaces is how many places are looked at: more than the limits allow.
	maxPlaces = 1000
	// unpromised is how long a place is kept whose work is not promised: its request may
	// still be in progress.
	unpromised = time.Minute

	// EscapeKey writes digits after "!", so no owner has these keys.
	allClips         = "!clips"
	allReprocessings = "!reprocessings"
)

// ledgerRow is a line, or the sums. The zero row is none.
type ledgerRow struct {
	Bytes, Waiting, Videos int64

	Generation int // of a line: the newest whose minutes are counted

	Day     string // of the sums: 2006-01-02, of UTC
	Seconds int64  // of the sums: of video on that day

	etag string // empty: there is no row
}

// replaced returns the sums with one line instead of another.
func (r ledgerRow) replaced(old, want ledgerRow, seconds int64) ledgerRow {
	if today := time.Now().UTC().Format(time.DateOnly); today > r.Day { // clocks differ: never back
		r.Day, r.Seconds = today, 0
	}
	r.Bytes += want.Bytes - old.Bytes
	r.Waiting += want.Waiting - old.Waiting
	r.Videos += want.Videos - old.Videos
	r.Seconds += seconds
	return r
}

func (r ledgerRow) op(ledger, key string) tablestore.Op {
	return tablestore.Over(tablestore.Entity{PartitionKey: ledger, RowKey: key, Props: tablestore.Props(r)}, r.etag)
}

func (s *Store) ledgerRow(ctx context.Context, ledger, key string) (r ledgerRow, _ error) {
	row, err := s.quotas.Get(ctx, ledger, key)
	r.etag = row.ETag
	return r, errors.Join(tablestore.IgnoreNotFound(err), row.Struct(&r))
}

// ledgerLock lets requests of one process take turns at a ledger: they would refuse each other
// again and again. Other processes are kept off by ETags and by counting.
type ledgerLock struct {
	sync.Mutex
	swept time.Time // when places were last compared with their work
}

func (s *Store) lockOf(ledger string) *ledgerLock {
	return &s.ledgerLocks[tablestore.Shard(ledger, len(s.ledgerLocks))]
}

// count makes the line of a video, and the sums with it, what they are to be, or returns a
// *QuotaError. owned has the video's id, owner and time of creation; meta returns the video as
// it is to be counted, or engine.ErrNotFound. It is called after the sums were read: a process that
// has read an older META has also read older sums, so its transaction is refused and it reads
// both again. wrote is false when the line was right already.
func (s *Store) count(
	ctx context.Context, owned video.Video, quota Quota, meta func(context.Context) (video.Video, error),
) (wrote bool, _ error) {
	ledger := ledgerOf(owned.Owner)
	key := videoLines + tablestore.InvertedTime(owned.CreatedAt) + tablestore.Separator + string(owned.ID)
	lock := s.lockOf(ledger)
	lock.Lock()
	defer lock.Unlock()
	for {
		before, err := s.ledgerRow(ctx, ledger, sumsKey)
		if err != nil {
			return false, err
		}
		old, err := s.ledgerRow(ctx, ledger, key)
		if err != nil {
			return false, err
		}
		v, err := meta(ctx)
		want, seconds := lineOf(v, old)
		if errors.Is(err, engine.ErrNotFound) {
			want, seconds, err = ledgerRow{}, 0, nil
		}
		if err != nil || want == old {
			return false, err
		}
		after := before.replaced(old, want, seconds)
		if refusal := quota.exceededBy(before, after); refusal != nil {
			return false, refusal
		}
		want.etag = old.etag
		line := want.op(ledger, key)
		if want.Videos == 0 {
			line.Kind = tablestore.OpDelete
		}
		_, err = s.quotas.Submit(ctx, []tablestore.Op{after.op(ledger, sumsKey), line})
		if !tablestore.Overtaken(err) {
			return err == nil, err
		}
		time.Sleep(rand.N(20 * time.Millisecond)) // another process was first
	}
}

// takePlace takes one of the places that a ledger has for requested work, or returns full and
// takes none. took says that this call has inserted it. Workers do not write here, so a place
// stays until the work has ended and the ledger is full. Safe to repeat.
//
// The place is inserted before the others are counted, so there are never too many. Of
// requests to several processes at once, one too many may be refused. A place that is there
// already may be of a request that was refused or cut off, so it is counted again.
func (s *Store) takePlace(ctx context.Context, ledger string, work engine.Key, limit int64, full error) (took bool, _ error) {
	if limit == 0 {
		return false, nil
	}
	lock := s.lockOf(ledger)
	lock.Lock()
	defer lock.Unlock()
	place := tablestore.Entity{PartitionKey: ledger, RowKey: workPlaces + work.ItemID()}
	_, err := s.quotas.Insert(ctx, place)
	took = err == nil
	if errors.Is(err, tablestore.ErrExists) {
		_, err = s.quotas.Upsert(ctx, place) // its time is that of the latest request
	}
	if err == nil {
		err = s.countPlaces(ctx, lock, place, limit, full)
	}
	if err != nil && took {
		err = errors.Join(err, s.leavePlace(ctx, ledger, work))
	}
	return took, err
}

// countPlaces returns full when so many other places of a ledger are taken.
func (s *Store) countPlaces(ctx context.Context, lock *ledgerLock, mine tablestore.Entity, limit int64, full error) error {
	others, err := s.quotas.First(ctx, tablestore.Query{
		PartitionKey: mine.PartitionKey, RowFrom: workPlaces, RowTo: tablestore.PrefixEnd(workPlaces), Class: tablestore.RowRange,
	}, maxPlaces)
	others = slices.DeleteFunc(others, func(place tablestore.Entity) bool { return place.RowKey == mine.RowKey })
	if err == nil && int64(len(others)) >= limit && time.Since(lock.swept) >= sweepEvery {
		lock.swept = time.Now()
		others, err = s.sweep(ctx, others)
	}
	if err == nil && int64(len(others)) >= limit {
		err = full
	}
	return err
}

// leaveTime bounds the requests that give a place back, beyond the caller's context.
const leaveTime = 10 * time.Second

// leavePlace gives a place back, also when the caller has stopped waiting. Safe to repeat.
func (s *Store) leavePlace(ctx context.Context, ledger string, work engine.Key) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	return s.quotas.Delete(ctx, ledger, workPlaces+work.ItemID(), tablestore.AnyETag)
}

// leavePlaces gives back those of all work on a video that is purged.
func (s *Store) leavePlaces(ctx context.Context, id engine.ID) error {
	prefix := workPlaces + string(id) + "."
	for _, ledger := range []string{allClips, allReprocessings} {
		_, err := s.quotas.Clear(ctx, tablestore.Query{
			PartitionKey: ledger, RowFrom: prefix, RowTo: tablestore.PrefixEnd(prefix), Class: tablestore.RowRange,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sweep removes the places of work that has ended, and returns the others.
func (s *Store) sweep(ctx context.Context, places []tablestore.Entity) (taken []tablestore.Entity, _ error) {
	for _, place := range places {
		goesOn, err := s.goesOn(ctx, place)
		if err == nil && !goesOn {
			err = s.quotas.Delete(ctx, place.PartitionKey, place.RowKey, place.ETag)
		}
		switch {
		case goesOn, errors.Is(err, tablestore.ErrUnreadable), errors.Is(err, tablestore.ErrChanged):
			taken = append(taken, place)
		case err != nil:
			return nil, err
		}
	}
	return taken, nil
}

// goesOn reports whether the work of a place has not ended: two point reads at most.
func (s *Store) goesOn(ctx context.Context, place tablestore.Entity) (bool, error) {
	asking := time.Since(place.Timestamp) < unpromised
	work, err := s.ParseItemID(strings.TrimPrefix(place.RowKey, workPlaces))
	if err != nil {
		return false, nil // not ours
	}
	rec, err := s.Get(ctx, work.ID)
	if errors.Is(err, engine.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if generation := rec.Subject.Generation; s.StepOf(work).Stage == engine.First {
		return generation < work.Generation && asking || generation == work.Generation && rec.Subject.State.Active(), nil
	}
	clip, err := s.ReadRun(ctx, work)
	if errors.Is(err, engine.ErrNoRun) {
		return asking, nil
	}
	return err == nil && !clip.Ended(s.StepOf(work)), err
}
