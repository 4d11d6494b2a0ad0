package upload

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// maxTickets is how many parts a client gets valet keys for at a time.
const maxTickets = 32

// maxGivenUp is how many uploads of one video may be given up or refused: their keys
// still write until they end, so each lets its holder store as much once more.
const maxGivenUp = 10

// Begin says what is held of an upload and what to send next, and fixes how the file is
// cut when that was not done. size is the file's, in bytes; 0 when it was announced before.
// anew gives up what was sent before. The client that sends parts repeats it: what has arrived
// is worked on.
func (s *Service) Begin(ctx context.Context, rec videostore.Record, size int64, anew bool) (none api.Upload, _ error) {
	rec, err := s.layOut(ctx, rec, size, anew)
	if err != nil {
		return none, err
	}
	l, _ := sourceparts.LayoutOf(rec.Subject.Upload)
	held, err := sourceparts.Held(ctx, s.blobs, rec.Subject.ID, l)
	if err != nil {
		return none, err
	}
	if err := s.sniffParts(ctx, rec.Subject, held); err != nil {
		return none, err
	}
	if s.Arrived != nil { // after the look at its first bytes, because work may begin now
		if rec, err = s.Arrived(ctx, rec.Subject.ID, held); err != nil {
			return none, err
		}
	}
	return s.sending(ctx, rec.Subject, held)
}

// Status is Begin for a client that only wants to know.
func (s *Service) Status(ctx context.Context, v video.Video) (none api.Upload, _ error) {
	if v.State != engine.AwaitingUpload {
		return none, engine.ErrState
	}
	l, inParts := sourceparts.LayoutOf(v.Upload)
	if !inParts {
		return progress(v, sourceparts.Layout{Bytes: v.SizeBytes, PartBytes: sourceparts.PartBytes}, nil), nil
	}
	held, err := sourceparts.Held(ctx, s.blobs, v.ID, l)
	if err != nil {
		return none, err
	}
	return s.sending(ctx, v, held)
}

// layOut returns the video with a layout for a file of size bytes.
func (s *Service) layOut(ctx context.Context, rec videostore.Record, size int64, anew bool) (videostore.Record, error) {
	id, old, announced := rec.Subject.ID, rec.Subject.Upload, rec.Subject.SizeBytes
	size = cmp.Or(size, announced)
	switch {
	case rec.Subject.State != engine.AwaitingUpload:
		return rec, engine.ErrState
	case announced > 0 && size != announced:
		return rec, sizeMismatch(announced, size)
	case old != nil && !anew && (size == 0 || size == old.Bytes):
		return rec, nil
	case old != nil && !anew:
		return rec, conflict("An upload of %d bytes has begun. Begin anew, or upload the file as a video of its own.", old.Bytes)
	case old != nil && old.Started:
		return rec, conflict("What was sent before is being made already. Upload the file as a video of its own.")
	case size == 0:
		return rec, problem.New(problem.InvalidBody, "Member /sizeBytes: how many bytes the file has must be said.")
	case size > MaxSize:
		return rec, tooLarge()
	}
	mine := &engine.Upload{Bytes: size, PartBytes: sourceparts.PartBytes, Epoch: rand.Text()}
	if rec.Subject.GivenUp >= maxGivenUp {
		return rec, conflict("%d uploads of this video were given up. Upload the file as a video of its own.", maxGivenUp)
	}
	wanted := rec.Subject
	wanted.SizeBytes = size
	if err := s.videos.Quotas.Reserve(ctx, wanted); err != nil {
		return rec, err
	}
	if err := s.videos.MarkInflight(ctx, rec.Subject.Meta); err != nil {
		return rec, err
	}
	rec, err := s.replaceUpload(ctx, id, old, mine)
	if err == nil && rec.Subject.Upload.Bytes != size {
		err = conflict("Another upload of this video came in between.")
	}
	return rec, err
}

// replaceUpload gives a video the layout mine in place of old, and removes the parts of
// old. When another request was faster the video has its upload, which is not nil.
func (s *Service) replaceUpload(ctx context.Context, id engine.ID, old, mine *engine.Upload) (videostore.Record, error) {
	rec, err := s.videos.Change(ctx, id, "", func(v *video.Video) ([]engine.OutboxMessage, error) {
		there := v.Upload
		switch {
		case v.State != engine.AwaitingUpload:
			return nil, engine.ErrState
		case there == nil && old == nil, there != nil && old != nil && there.Epoch == old.Epoch && !there.Started:
			v.Upload = mine
			if old != nil {
				v.GivenUp++
			}
			return nil, nil
		case there == nil:
			return nil, conflict("Another upload of this video came in between.")
		}
		return nil, engine.ErrUnchanged
	})
	if err != nil || old == nil || rec.Subject.Upload != mine {
		return rec, err
	}
	// The row goes before the blobs: what a crash leaves here, or a key writes that is
	// still valid, is the janitor's.
	if err := s.blobs.DeletePrefix(ctx, engine.SourcesContainer, sourceparts.Prefix(id, old.Epoch)); err != nil {
		return rec, fmt.Errorf("remove the parts of %s that were given up: %w", id, err)
	}
	return rec, nil
}

// sniffParts looks at the first bytes as soon as they are there: a client that sends something
// else need not send all of it. What is no video is removed, unless work on it has
// begun: then it was looked at.
func (s *Service) sniffParts(ctx context.Context, v video.Video, held []sourceparts.Part) error {
	if v.Upload.Started || sourceparts.Head(held) == 0 {
		return nil
	}
	l, _ := sourceparts.LayoutOf(v.Upload)
	body, _, err := s.blobs.Open(ctx, engine.SourcesContainer, sourceparts.Name(v.ID, l, 0), blobstore.Range{Length: min(video.HeadBytes, held[0].Bytes)}, held[0].ETag)
	if err != nil {
		return fmt.Errorf("look at upload of %s: %w", v.ID, err)
	}
	head, err := io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil {
		return fmt.Errorf("look at upload of %s: %w", v.ID, err)
	}
	if reason := sniff(head); reason != nil {
		if _, err := s.replaceUpload(ctx, v.ID, v.Upload, nil); err != nil {
			return fmt.Errorf("remove refused upload of %s (%w): %w", v.ID, reason, err)
		}
		return reason
	}
	return nil
}

// progress is how far an upload has come, without what is to be sent next.
func progress(v video.Video, l sourceparts.Layout, held []sourceparts.Part) api.Upload {
	return api.Upload{
		SizeBytes: l.Bytes, PartSizeBytes: l.PartBytes, Parts: l.Count(), Playable: v.Playable, Send: []api.PartToSend{},
		Held: api.Each(held, func(p sourceparts.Part) api.PartHeld {
			return api.PartHeld{Number: p.Number, Md5: base64.StdEncoding.EncodeToString(p.MD5)}
		}),
	}
}

// sending adds keys for the parts that are to be sent next: those that work waits for, and
// then the others in order. The URL of each creates the part's blob, once.
func (s *Service) sending(ctx context.Context, v video.Video, held []sourceparts.Part) (api.Upload, error) {
	l, _ := sourceparts.LayoutOf(v.Upload)
	out := progress(v, l, held)
	out.ExpiresAt = time.Now().Add(sourceparts.KeyLife).UTC().Truncate(time.Second)
	there := make(map[int]bool, len(held))
	for _, p := range held {
		there[p.Number] = true
	}
	wanted := sourceparts.First(v.Upload)
	for i := range len(wanted) + l.Count() {
		n := i - len(wanted)
		if n < 0 {
			n = wanted[i]
		}
		if there[n] || len(out.Send) == maxTickets {
			continue
		}
		there[n] = true // once
		url, err := s.account.SignCreate(ctx, engine.SourcesContainer, sourceparts.Name(v.ID, l, n), sourceparts.KeyLife)
		if err != nil {
			return out, fmt.Errorf("sign upload of %s: %w", v.ID, err)
		}
		out.Send = append(out.Send, api.PartToSend{Number: n, Url: url})
		if i < len(wanted) {
			out.First++
		}
	}
	return out, nil
}

// Complete checks that all of the upload is there, writes its manifest, and starts the
// processing. sums, if there are any, are the MD5 of all parts as the client has them: what is
// held must be the client's file. Safe to repeat.
func (s *Service) Complete(ctx context.Context, v video.Video, sums [][]byte) (videostore.Record, error) {
	l, inParts := sourceparts.LayoutOf(v.Upload)
	switch {
	case v.State != engine.AwaitingUpload:
		return s.videos.Uploaded(ctx, v.ID, "", "") // repeated, or refused
	case !inParts:
		return videostore.Record{}, problem.New(problem.UploadIncomplete, "Nothing has been uploaded.")
	}
	held, err := sourceparts.Held(ctx, s.blobs, v.ID, l)
	if err != nil {
		return videostore.Record{}, err
	}
	if len(held) < l.Count() {
		return videostore.Record{}, problem.New(problem.UploadIncomplete, "Part %d is missing: %d of %d are here.", sourceparts.Head(held), len(held), l.Count())
	}
	if err := compare(held, sums); err != nil {
		return videostore.Record{}, err
	}
	if err := s.sniffParts(ctx, v, held); err != nil {
		return videostore.Record{}, err
	}
	etag, err := sourceparts.PutManifest(ctx, s.blobs, v.ID, sourceparts.Manifest{Layout: l, Parts: held})
	var rec videostore.Record
	if err == nil {
		rec, err = s.videos.Uploaded(ctx, v.ID, l.Epoch, etag)
	}
	switch {
	case errors.Is(err, blobstore.ErrExists), errors.Is(err, engine.ErrChanged):
		return rec, conflict("Another upload of this video came in between.").Because(err)
	case err != nil:
		return rec, fmt.Errorf("complete upload of %s: %w", v.ID, err)
	}
	return rec, nil
}

// compare returns 409 upload_conflict when parts have not the sums that they should, if
// there are any.
func compare(held []sourceparts.Part, sums [][]byte) error {
	if len(sums) != len(held) && len(sums) > 0 {
		return conflict("The upload has %d parts, and %d checksums came.", len(held), len(sums))
	}
	for n, sum := range sums {
		if !bytes.Equal(held[n].MD5, sum) {
			return conflict("Another file was sent for this video. Of %d parts, the first that differs is %d.", len(held), n)
		}
	}
	return nil
}

func conflict(format string, args ...any) *problem.Error {
	return problem.New(problem.UploadConflict, format, args...)
}
