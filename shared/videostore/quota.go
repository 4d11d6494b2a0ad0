package videostore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
)

// OwnersTable says what everybody has, and how much of it:
//
//	PartitionKey  the owner
//	RowKey        QUOTA                     sums over the lines: Bytes, Waiting, Videos; Day, Seconds
//	              VIDEO:<id>                a line: what one video takes of them
//	              NEW:<inverted time>__<id> the same video, newest first
//
// Two requests at once must not both take the last free place, and a repeated request
// must not count twice. So one entity-group transaction changes the sums and a line
// (T2), on the condition that the sums are as they were read, and a repetition finds
// its line. The web role writes the line before the video exists, and refuses what is
// over a quota. Later the step on change and the purge make the line follow META. When
// a request dies between its line and META, the reconciler finds the video's mark in
// table "inflight" and calls Release.
const OwnersTable = "owners"

// Quota is what one owner may have. 0 is no limit.
type Quota struct {
	StoredBytes int64 // of uploads, announced or here
	Waiting     int64 // videos that are announced, or being processed
	Minutes     int64 // of video that are processed in a day of UTC
	Clips       int64 // that are being made
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

// quotaOf is what an owner may have.
func (l Limits) quotaOf(owner string) Quota {
	if owner == video.LocalOwner {
		return l.Local
	}
	return l.Owner
}

const (
	sumsKey    = "QUOTA"
	linePrefix = "VIDEO:"
	newPrefix  = "NEW:"
	// maxOwnerKey bounds the owner in a key, in bytes. Longer ones are hashed.
	maxOwnerKey = 200
)

func ownerKey(owner string) string {
	if key := tablestore.EscapeKey(owner); len(key) <= maxOwnerKey && key != "" {
		return key
	}
	sum := sha256.Sum256([]byte(owner))
	return "!~" + hex.EncodeToString(sum[:]) // EscapeKey writes digits after it, so nobody has this key
}

// sums is the row QUOTA.
type sums struct {
	Bytes, Waiting, Videos int64
	Day                    string // 2006-01-02, of UTC
	Seconds                int64  // of video on that day

	etag string // empty: there is no row
}

// line is the row of one video.
type line struct {
	Bytes      int64
	Waiting    bool
	Generation int // the newest whose minutes are counted
	CreatedAt  time.Time

	there bool
}

// amounts is what a video takes by its META, given the line that there is. seconds are
// of a generation that is not counted yet, and whose length is known.
func amounts(v video.Video, old line) (want line, seconds int64) {
	want = line{Bytes: v.SizeBytes, Generation: old.Generation, CreatedAt: v.CreatedAt, there: true}
	want.Waiting = v.State == video.AwaitingUpload || v.State.Active()
	if want.Waiting && v.SizeBytes == 0 { // what arrives was reserved when it began
		want.Bytes = old.Bytes
	}
	switch {
	case old.there:
		want.CreatedAt = old.CreatedAt // it is in the key of the other row
	case v.CreatedAt.IsZero():
		want.CreatedAt = now()
	}
	if v.DurationSeconds > 0 && v.Generation > old.Generation {
		want.Generation, seconds = v.Generation, int64(math.Ceil(v.DurationSeconds))
	}
	return want, seconds
}

// one is 1 for yes, for sums.
func one(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// replaced returns the sums with one line instead of another.
func (s sums) replaced(old, want line, seconds int64) sums {
	if today := time.Now().UTC().Format(time.DateOnly); today > s.Day { // clocks differ: never back
		s.Day, s.Seconds = today, 0
	}
	s.Bytes += want.Bytes - old.Bytes
	s.Waiting += one(want.Waiting) - one(old.Waiting)
	s.Videos += one(want.there) - one(old.there)
	s.Seconds += seconds
	return s
}

// over returns a *QuotaError when the change from before to after takes more of
// something than the quota allows. What stays equal or shrinks is always allowed, also
// when it is over a quota that was lowered meanwhile. begins: the video is new.
func (q Quota) over(before, after sums, begins bool) error {
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
	// Nobody knows how long a video is before it is probed. So a new one is let in while
	// any minutes are left.
	if limit > 0 && (begins && used >= limit || after.Seconds > used && after.Seconds > limit) {
		return &QuotaError{Quota: QuotaMinutes, Limit: q.Minutes, Left: max(0, (limit-used)/60)}
	}
	return nil
}

// turns let one request at a time write for an owner. Without them, requests of one
// process at once would refuse each other's transactions and try again and again. Only
// the ETag of the sums protects against other processes.
type turns [64]chan struct{}

func newTurns() (t turns) {
	for i := range t {
		t[i] = make(chan struct{}, 1)
	}
	return t
}

// take waits for the owner's turn and returns what ends it.
func (t *turns) take(ctx context.Context, owner string) (end func(), _ error) {
	h := fnv.New32a()
	h.Write([]byte(owner))
	turn := t[h.Sum32()%uint32(len(t))]
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Reserve takes what a video needs from its owner's quota, or returns a *QuotaError and
// takes nothing. v is the video as it will be. Safe to repeat.
func (s *Store) Reserve(ctx context.Context, v video.Video) error {
	_, err := s.setLine(ctx, count{owner: v.Owner, id: v.ID, announced: &v, quota: s.limits.quotaOf(v.Owner)})
	return err
}

// Release makes a video's line follow META until there is nothing to write, and removes
// the line when there is no META: the request died before it wrote one, or the video was
// purged. Safe to repeat.
func (s *Store) Release(ctx context.Context, owner string, id video.ID) error {
	for {
		wrote, err := s.setLine(ctx, count{owner: owner, id: id})
		if err != nil || !wrote {
			return err
		}
	}
}

// CountOwned makes the sums of a video's owner follow META. Several may run at once, in
// any order: each reads META again after it has written, so the last one leaves the sums
// right. Safe to repeat.
func (s *Store) CountOwned(ctx context.Context, id video.ID) error {
	owner := ""
	rec, err := s.Get(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		mark, err := s.inflight.Get(ctx, inflightPartition(id), string(id))
		if errors.Is(err, tablestore.ErrNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the mark of %s: %w", id, err)
		}
		owner = mark.String("Owner")
	case err != nil:
		return err
	default:
		owner = rec.Video.Owner
		old, _, err := s.readLine(ctx, owner, id)
		if err != nil {
			return err
		}
		if want, seconds := amounts(rec.Video, old); want == old && seconds == 0 {
			return nil
		}
	}
	return s.Release(ctx, owner, id)
}

// count asks for one video's line to be made right.
type count struct {
	owner     string
	id        video.ID
	announced *video.Video // as it will be; nil: as META says, or no line without META
	quota     Quota        // refuses what is announced; zero refuses nothing
}

// source returns the video that the line is to describe; nil when there is none.
func (s *Store) source(ctx context.Context, c count) (*video.Video, error) {
	if c.announced != nil {
		return c.announced, nil
	}
	rec, err := s.Get(ctx, c.id)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return &rec.Video, err
}

// setLine makes a video's line right, and the sums with it. META is read after the sums.
// So a process that has read an older META has also read older sums: its transaction is
// refused, and it reads both again. wrote is false when the line was right already.
func (s *Store) setLine(ctx context.Context, c count) (wrote bool, _ error) {
	end, err := s.turns.take(ctx, c.owner)
	if err != nil {
		return false, err
	}
	defer end()
	for {
		before, err := s.readSums(ctx, c.owner)
		if err != nil {
			return false, err
		}
		v, err := s.source(ctx, c)
		if err != nil {
			return false, err
		}
		old, row, err := s.readLine(ctx, c.owner, c.id)
		if err != nil {
			return false, err
		}
		want, seconds := line{}, int64(0)
		if v != nil {
			want, seconds = amounts(*v, old)
		}
		if want == old {
			return false, nil
		}
		after := before.replaced(old, want, seconds)
		if err := c.quota.over(before, after, !old.there); err != nil {
			return false, err
		}
		_, err = s.ownersTable.Submit(ctx, c.ops(after, old, want, row))
		if err == nil {
			return true, nil
		}
		if !isStale(err) && !errors.Is(err, tablestore.ErrExists) {
			return false, fmt.Errorf("count %s for its owner: %w", c.id, err)
		}
		select { // another process was first
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(rand.N(20 * time.Millisecond)):
		}
	}
}

func (s *Store) readSums(ctx context.Context, owner string) (sums, error) {
	row, err := s.ownersTable.Get(ctx, ownerKey(owner), sumsKey)
	if errors.Is(err, tablestore.ErrNotFound) {
		return sums{}, nil
	}
	if err != nil {
		return sums{}, fmt.Errorf("read an owner's sums: %w", err)
	}
	return sums{
		Bytes: row.Int64("Bytes"), Waiting: row.Int64("Waiting"), Videos: row.Int64("Videos"),
		Day: row.String("Day"), Seconds: row.Int64("Seconds"), etag: row.ETag,
	}, nil
}

func (s *Store) readLine(ctx context.Context, owner string, id video.ID) (line, tablestore.Entity, error) {
	row, err := s.ownersTable.Get(ctx, ownerKey(owner), linePrefix+string(id))
	if errors.Is(err, tablestore.ErrNotFound) {
		return line{}, tablestore.Entity{}, nil
	}
	if err != nil {
		return line{}, row, fmt.Errorf("read what %s takes of its owner's quota: %w", id, err)
	}
	return line{
		Bytes: row.Int64("Bytes"), Waiting: row.Bool("Waiting"), Generation: row.Int("Generation"),
		CreatedAt: row.Time("CreatedAt"), there: true,
	}, row, nil
}

// ops is the transaction that puts want in the place of old, whose row is given.
func (c count) ops(after sums, old, want line, row tablestore.Entity) []tablestore.Op {
	key, id := ownerKey(c.owner), string(c.id)
	sum := tablestore.Op{Kind: tablestore.OpInsert, IfMatch: after.etag, Entity: tablestore.Entity{
		PartitionKey: key, RowKey: sumsKey,
		Props: map[string]any{"Bytes": after.Bytes, "Waiting": after.Waiting, "Videos": after.Videos, "Day": after.Day, "Seconds": after.Seconds},
	}}
	if after.etag != "" {
		sum.Kind = tablestore.OpReplace
	}
	created := want.CreatedAt
	if old.there {
		created = old.CreatedAt
	}
	newest := tablestore.Entity{PartitionKey: key, RowKey: newPrefix + tablestore.InvertedTime(created) + tablestore.Separator + id}
	mine := tablestore.Entity{PartitionKey: key, RowKey: linePrefix + id, Props: map[string]any{
		"Bytes": want.Bytes, "Waiting": want.Waiting, "Generation": int32(want.Generation), "CreatedAt": created,
	}}
	switch {
	case !want.there:
		return []tablestore.Op{sum, {Kind: tablestore.OpDelete, Entity: mine, IfMatch: row.ETag}, {Kind: tablestore.OpDelete, Entity: newest, IfMatch: tablestore.AnyETag}}
	case !old.there:
		return []tablestore.Op{sum, {Kind: tablestore.OpInsert, Entity: mine}, {Kind: tablestore.OpInsert, Entity: newest}}
	}
	return []tablestore.Op{sum, {Kind: tablestore.OpReplace, Entity: mine, IfMatch: row.ETag}}
}

// Owned returns a page of an owner's videos, newest first, whatever their visibility
// and state: a row range (T5). next continues it and is empty at the end;
// tablestore.ErrToken for a token that is not ours.
func (s *Store) Owned(ctx context.Context, owner string, limit int, token string) (ids []video.ID, next string, err error) {
	_, next, err = s.ownersTable.Page(ctx, tablestore.Query{
		PartitionKey: ownerKey(owner), RowFrom: newPrefix, RowTo: tablestore.PrefixEnd(newPrefix),
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

// reserveClip takes one of the clips that a requester may have waiting, in a ledger of
// the owner's own: see BudgetsTable.
func (s *Store) reserveClip(ctx context.Context, asker, entry string) error {
	limit := s.limits.quotaOf(asker).Clips
	err := s.reserve(ctx, ownClips+ownerKey(asker), int(limit), entry)
	if errors.Is(err, ErrBusy) {
		return &QuotaError{Quota: QuotaClips, Limit: limit}
	}
	return err
}
