package videostore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// Quota is what one owner, or all together, may have. 0 is no limit.
type Quota struct {
	StoredBytes   int64 // of uploads, announced or here
	Waiting       int64 // videos that are announced, or being processed
	Minutes       int64 // of video that are processed in a day of UTC
	Clips         int64 // in progress, by requester
	Reprocessings int64 // that are open; a retry is not counted
}

// Limits are the quotas of a stack. 0 is no limit.
type Limits struct {
	ClipsOfVideo int   // open clips of one video: see checkClips
	All          Quota // of all together: Clips and Reprocessings
	Owner        Quota // of each owner but the next: all but Reprocessings
	Local        Quota // of video.LocalOwner, likewise
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
	QuotaStored        = "stored_bytes"
	QuotaWaiting       = "videos_waiting"
	QuotaMinutes       = "minutes_a_day"
	QuotaClips         = "clips_waiting"
	quotaReprocessings = "reprocessings" // only of all together, for which ErrBusy stands
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

// ErrBusy says that the quota of all together is used up. Asking again in some seconds may
// help.
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
		{QuotaClips, q.Clips, before.Clips, after.Clips},
		{quotaReprocessings, q.Reprocessings, before.Reprocessings, after.Reprocessings},
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

// all is the ledger of all owners together. EscapeKey writes digits after "!", so no owner
// has this key.
const all = "!all"

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
	_, err := s.set(ctx, entry{
		ledger: ledgerOf(v.Owner), key: videoLines + string(v.ID), quota: s.limits.quotaOf(v.Owner),
		want: func(_ context.Context, old ledgerRow) (ledgerRow, int64, error) {
			want, seconds := videoLine(v, old)
			return want, seconds, nil
		},
	})
	return err
}

// CountOwned makes what is counted for a video's owner follow META, and removes the line
// when there is no META: the request died before it wrote one, or the video was purged.
// Several may run at once, in any order: each reads META again after it has written, so
// the last one leaves the sums right. Safe to repeat.
func (s *Store) CountOwned(ctx context.Context, id video.ID) error {
	for wrote := true; wrote; {
		owner, err := s.ownerOf(ctx, id)
		if err != nil || owner == "" {
			return err
		}
		wrote, err = s.set(ctx, entry{
			ledger: ledgerOf(owner), key: videoLines + string(id),
			want: func(ctx context.Context, old ledgerRow) (want ledgerRow, seconds int64, err error) {
				rec, err := s.Get(ctx, id)
				if errors.Is(err, ErrNotFound) {
					return want, 0, nil
				}
				want, seconds = videoLine(rec.Video, old)
				return want, seconds, err
			},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ownerOf reads whose a video is, or was by its mark; empty when there is neither.
func (s *Store) ownerOf(ctx context.Context, id video.ID) (string, error) {
	rec, err := s.Get(ctx, id)
	if !errors.Is(err, ErrNotFound) {
		return rec.Video.Owner, err
	}
	mark, err := s.inflightMark(ctx, id)
	return mark.Owner, err
}

// videoLine is what a video takes, given the line that there is. seconds are of a
// generation that is not counted yet, and whose length is known.
func videoLine(v video.Video, old ledgerRow) (want ledgerRow, seconds int64) {
	want = ledgerRow{amounts: amounts{Bytes: v.SizeBytes, Videos: 1}, Generation: old.Generation, CreatedAt: v.CreatedAt, etag: old.etag}
	if v.State == video.AwaitingUpload || v.State.Active() {
		want.Waiting = 1
		if v.SizeBytes == 0 { // what arrives was reserved when it began
			want.Bytes = old.Bytes
		}
	}
	switch {
	case old.etag != "":
		want.CreatedAt = old.CreatedAt // it is in the key of the other row
	case v.CreatedAt.IsZero():
		want.CreatedAt = now()
	}
	if v.DurationSeconds > 0 && v.Generation > old.Generation {
		want.Generation, seconds = v.Generation, int64(math.Ceil(v.DurationSeconds))
	}
	return want, seconds
}

// reserveClip takes one of the clips that may be made at once: of the requester's quota,
// and of that of all together.
func (s *Store) reserveClip(ctx context.Context, asker string, key workflow.Key) error {
	mine, line, one := ledgerOf(asker), clipLines+tablestore.Join(string(key.ID), key.Name()), amounts{Clips: 1}
	if err := s.take(ctx, mine, line, one, Quota{Clips: s.limits.quotaOf(asker).Clips}); err != nil {
		return err
	}
	err := s.take(ctx, all, line, one, Quota{Clips: s.limits.All.Clips})
	if errors.Is(err, ErrBusy) {
		err = errors.Join(err, s.giveBack(ctx, mine, line))
	}
	return err
}

// reserveReprocess takes one of the reprocessings that may be open at once.
func (s *Store) reserveReprocess(ctx context.Context, id video.ID, generation int) error {
	line := reprocessLines + tablestore.Join(string(id), strconv.Itoa(generation))
	return s.take(ctx, all, line, amounts{Reprocessings: 1}, Quota{Reprocessings: s.limits.All.Reprocessings})
}

// take writes a line for requested work, which stays until the work has ended and its place
// is needed: see sweep. ErrBusy when the quota of all is used up.
func (s *Store) take(ctx context.Context, ledger, key string, takes amounts, quota Quota) error {
	if quota == (Quota{}) {
		return nil
	}
	_, err := s.set(ctx, entry{ledger, key, quota, func(_ context.Context, old ledgerRow) (ledgerRow, int64, error) {
		return ledgerRow{amounts: takes, CreatedAt: now(), etag: old.etag}, 0, nil
	}})
	if ledger == all && errors.As(err, new(*QuotaError)) {
		return ErrBusy
	}
	return err
}

// giveBack removes a line. Safe to repeat.
func (s *Store) giveBack(ctx context.Context, ledger, key string) error {
	_, err := s.set(ctx, entry{ledger, key, Quota{}, func(context.Context, ledgerRow) (none ledgerRow, _ int64, _ error) {
		return none, 0, nil
	}})
	return err
}

// giveBackAll removes the lines of all work on a video that is purged.
func (s *Store) giveBackAll(ctx context.Context, id video.ID) error {
	for _, kind := range []string{clipLines, reprocessLines} {
		rows, err := s.lines(ctx, all, kind+string(id)+tablestore.Separator)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := s.giveBack(ctx, all, row.RowKey); err != nil {
				return err
			}
		}
	}
	return nil
}

// unpromised is how long a line is kept whose work is not promised: its request may still
// be in progress.
const unpromised = time.Minute

// goesOn reports whether the work of a line has not ended: a point read.
func (s *Store) goesOn(ctx context.Context, row tablestore.Entity) (bool, error) {
	kind, rest, _ := strings.Cut(row.RowKey, ":")
	id, name, _ := strings.Cut(rest, tablestore.Separator)
	asking := time.Since(row.Time("CreatedAt")) < unpromised
	if kind+":" == clipLines {
		key, err := ParseClipID(video.ID(id), name)
		if err != nil {
			return false, nil // not ours
		}
		clip, err := s.Requested(ctx, key)
		if errors.Is(err, ErrNoClip) {
			return asking, nil
		}
		return !clip.Ended(), err
	}
	generation, _ := strconv.Atoi(name)
	rec, err := s.Get(ctx, video.ID(id))
	switch {
	case errors.Is(err, ErrNotFound):
		return false, nil
	case err == nil && rec.Video.Generation < generation:
		return asking, nil
	}
	return rec.Video.Generation == generation && rec.Video.State.Active(), err
}

// Owned returns a page of an owner's videos, newest first, whatever their visibility
// and state: a row range (T5). next continues it and is empty at the end;
// tablestore.ErrToken for a token that is not ours.
func (s *Store) Owned(ctx context.Context, owner string, limit int, token string) (ids []video.ID, next string, err error) {
	_, next, err = s.quotas.Page(ctx, tablestore.Query{
		PartitionKey: ledgerOf(owner), RowFrom: newestRows, RowTo: tablestore.PrefixEnd(newestRows),
		PageSize: int32(limit), Class: tablestore.RowRange, Read: tablestore.Into(&ids, readOwned),
	}, token)
	if err != nil {
		return nil, "", fmt.Errorf("list an owner's videos: %w", err)
	}
	return ids, next, nil
}

func readOwned(row tablestore.Entity) (video.ID, error) {
	_, id, _ := strings.Cut(row.RowKey, tablestore.Separator)
	return video.ParseID(id)
}
