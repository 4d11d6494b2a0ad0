package problem

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/registrations"
	"github.com/cutroom/cutroom/shared/rowstream"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/views"
	"github.com/cutroom/cutroom/shared/workqueue"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/board"
)

// answers are the errors that say all there is to say.
var answers = []struct {
	err          error
	status       int
	code, detail string
}{
	{videostore.ErrNotFound, http.StatusNotFound, NotFound, "There is no such video."},
	{videostore.ErrNoClip, http.StatusNotFound, NotFound, "There is no such clip."},
	{videostore.ErrNoCaptions, http.StatusNotFound, NotFound, "There are no captions in this language."},
	{videostore.ErrLanguage, http.StatusBadRequest, InvalidParameter, "This is not the BCP 47 tag of a language, such as en or pt-BR."},
	{videostore.ErrLanguages, http.StatusConflict, StateConflict, "This video has captions in as many languages as it may. Remove some."},
	{videostore.ErrOutside, http.StatusBadRequest, InvalidBody, "The part is not inside the video."},
	{blobstore.ErrNotFound, http.StatusNotFound, NotFound, "There is no such file any more."},
	{videostore.ErrChanged, http.StatusPreconditionFailed, PreconditionFail, "The video was changed in the meantime. Read it again."},
	{videostore.ErrKeyUsed, http.StatusConflict, IdempotencyMiss, "This Idempotency-Key was used with another body."},
	{videostore.ErrState, http.StatusConflict, StateConflict, "The video is not in a state that allows this."},
	{registrations.ErrNotFound, http.StatusNotFound, NotFound, "Nobody has this bib."},
	{registrations.ErrChanged, http.StatusPreconditionFailed, PreconditionFail, "The registration was changed in the meantime. Read it again."},
	{video.ErrInvalidID, http.StatusBadRequest, InvalidID, "A video's id is 26 characters of a-z and 2-7."},
	{tablestore.ErrToken, http.StatusBadRequest, InvalidPageToken, "The page token is not one of this query. Start from the first page."},
	{rowstream.ErrBadToken, http.StatusBadRequest, InvalidPageToken, "The page token is not one of this query. Start from the first page."},
	{board.ErrCrowded, http.StatusTooManyRequests, TooBusy, "Too many watch the board."},
	{board.ErrClosed, http.StatusServiceUnavailable, StorageBusy, "This web role stops. Ask again: another one answers."},
	{context.Canceled, statusClientGone, ClientClosed, "The client closed the connection."},
}

// from maps any error to its answer and to the storage service's code, if
// storage had a part in it.
func from(err error) (*Error, string) {
	_, storageCode, _ := azstorage.Describe(err)
	return answer(err), storageCode
}

func answer(err error) *Error {
	var known *Error
	var failure *video.Failure
	var tooLarge *http.MaxBytesError
	var invalid *registrations.Invalid
	var quota *videostore.QuotaError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &failure):
		return New(http.StatusUnsupportedMediaType, string(failure.Code), "%s", failure.Detail)
	case errors.As(err, &tooLarge):
		return New(http.StatusRequestEntityTooLarge, BodyTooLarge, "The body is larger than %d bytes.", tooLarge.Limit)
	case errors.As(err, &invalid):
		return New(http.StatusBadRequest, string(invalid.Code), "Not taken: %s.", invalid.Detail)
	case errors.As(err, &quota):
		return overQuota(quota)
	case errors.Is(err, videostore.ErrBusy):
		e := New(http.StatusTooManyRequests, TooBusy, "As much of this waits to be made as is allowed. Nothing was asked for; try again later.")
		e.RetryAfter = 5
		return e
	case errors.Is(err, searchindex.ErrQueryTooLong):
		return New(http.StatusBadRequest, InvalidParameter, "A search may have at most %d words.", searchindex.MaxWords)
	case workqueue.IsMissing(err):
		return New(http.StatusNotFound, QueueNotFound, "The queue does not exist yet.")
	}
	for _, a := range answers {
		if errors.Is(err, a.err) {
			return New(a.status, a.code, "%s", a.detail)
		}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, views.ErrContended), errors.Is(err, registrations.ErrContended),
		azstorage.IsUnavailable(err):
		return away()
	case unreachable(err):
		return New(http.StatusServiceUnavailable, StorageBusy, "Storage cannot be reached. Nothing is lost; try again soon.")
	}
	return New(http.StatusInternalServerError, Internal, internalErrorText)
}

// overQuota is 403 where only the owner can make room, and 429 where time will.
func overQuota(q *videostore.QuotaError) *Error {
	e := New(http.StatusTooManyRequests, QuotaExceeded, "The quota %s of %d is used up; %d are left. Nothing was done.", q.Quota, q.Limit, q.Left)
	switch q.Quota {
	case videostore.QuotaStored:
		e.Status, e.RetryAfter = http.StatusForbidden, 0
	case videostore.QuotaMinutes:
		now := time.Now().UTC()
		e.RetryAfter = int(now.Truncate(24*time.Hour).Add(24*time.Hour).Sub(now)/time.Second) + 1
	default:
		e.RetryAfter = 30
	}
	e.Quota = &api.Quota{Name: api.QuotaName(q.Quota), Limit: q.Limit, Left: q.Left}
	return e
}

func away() *Error {
	return New(http.StatusServiceUnavailable, StorageBusy, "Storage is busy or away. Nothing is lost; try again soon.")
}
