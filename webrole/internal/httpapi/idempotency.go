package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// An Idempotency-Key is honoured without an index: the video's id is computed
// from the key, so every web role computes the same one and the insert of the
// row decides. Beside META stands
//
//	PartitionKey  the video's id
//	RowKey        IDEM            BodyHash: what the key was first used for
//
// It is written first: a crash in between leaves a record that the repetition
// completes. It lives and dies with the video's partition.
const idemKey = "IDEM"

// createOnce creates v under the id of the key, or returns what the key created
// before. Another body under the same key is 409 idempotency_mismatch.
func (s *Server) createOnce(ctx context.Context, key string, body api.NewVideo, v video.Video) (videostore.Record, error) {
	v.ID = idOfKey(key)
	hash, err := hashOf(body)
	if err != nil {
		return videostore.Record{}, err
	}
	_, err = s.rows.Insert(ctx, tablestore.Entity{
		PartitionKey: string(v.ID), RowKey: idemKey, Props: map[string]any{"BodyHash": hash},
	})
	if errors.Is(err, tablestore.ErrExists) {
		err = s.sameBody(ctx, v.ID, hash)
	}
	if err != nil {
		return videostore.Record{}, fmt.Errorf("record idempotency key: %w", err)
	}
	rec, err := s.videos.Create(ctx, v)
	if !errors.Is(err, videostore.ErrExists) {
		return rec, err
	}
	rec, err = s.videos.Get(ctx, v.ID)
	if err == nil && rec.Video.State == video.Deleting {
		return rec, problem.New(http.StatusConflict, problem.StateConflict, "The video that this key made is being deleted.")
	}
	return rec, err
}

func (s *Server) sameBody(ctx context.Context, id video.ID, hash string) error {
	row, err := s.rows.Get(ctx, string(id), idemKey)
	if err != nil {
		return err
	}
	if row.String("BodyHash") != hash {
		e := problem.New(http.StatusConflict, problem.IdempotencyMiss, "This Idempotency-Key was used with another body.")
		e.VideoID = string(id)
		return e
	}
	return nil
}

func idOfKey(key string) video.ID {
	sum := sha256.Sum256([]byte("cutroom idempotency key\x00" + key))
	return video.ID(strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16])))
}

// hashOf does not see white space or the order of members.
func hashOf(body api.NewVideo) (string, error) {
	canonical, err := json.Marshal(body)
	if err != nil {
		return "", fmt.Errorf("hash body: %w", err)
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}
