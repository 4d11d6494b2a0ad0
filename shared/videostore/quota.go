package videostore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
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
	ClipsOfVideo  int   // open clips of one video: see RequestClip
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

// CountOwned makes what is counted for a video's owner follow META, and removes the line
// when there is no META: the request died before it wrote one, or the video was purged.
// Several may run at once, in any order: each reads META again after it has written, so
// the last one leaves the sums right. Safe to repeat.
func (s *Store) CountOwned(ctx context.Context, id video.ID) error {
	meta := func(ctx context.Context) (video.Video, error) {
		rec, err := s.Get(ctx, id)
		return rec.Video, err
	}
	for wrote := true; wrote; {
		v, err := meta(ctx)
		if errors.Is(err, ErrNotFound) { // its mark says whose it was
			var mark Inflight
			mark, err = s.inflightMark(ctx, id)
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

// lineOf is what a video takes, given the line that there is. seconds are of a
// generation that is not counted yet, and whose length is known.
func lineOf(v video.Video, old ledgerRow) (want ledgerRow, seconds int64) {
	want = ledgerRow{Bytes: v.SizeBytes, Videos: 1, Generation: old.Generation, etag: old.etag}
	if v.State == video.AwaitingUpload || v.State.Active() {
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

// reserveClip takes one of the clips that may be made at once: of the requester's quota,
// and of that of all together.
func (s *Store) reserveClip(ctx context.Context, asker string, clip workflow.Key) error {
	mine, limit := ledgerOf(asker), s.limits.quotaOf(asker).Clips
	if err := s.takePlace(ctx, mine, clip, limit, &QuotaError{Quota: QuotaClips, Limit: limit}); err != nil {
		return err
	}
	err := s.takePlace(ctx, allClips, clip, s.limits.Clips, ErrBusy)
	if errors.Is(err, ErrBusy) {
		err = errors.Join(err, s.leavePlace(ctx, mine, clip))
	}
	return err
}

// Owned returns a page of an owner's videos, newest first, whatever their visibility
// and state: a row range (T5). next continues it and is empty at the end;
// tablestore.ErrToken for a token that is not ours.
func (s *Store) Owned(ctx context.Context, owner string, limit int, token string) (ids []video.ID, next string, err error) {
	_, next, err = s.quotas.Page(ctx, tablestore.Query{
		PartitionKey: ledgerOf(owner), RowFrom: videoLines, RowTo: tablestore.PrefixEnd(videoLines),
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
