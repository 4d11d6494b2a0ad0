package problem

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/cutroom/cutroom/shared/apikeys"
	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqops"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/registrations"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/views"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/board"
)

// answers are the errors that say all there is to say.
var answers = []struct {
	err    error
	code   Code
	detail string
}{
	{videostore.ErrNotFound, NotFound, "There is no such video."},
	{videostore.ErrNoClip, NotFound, "There is no such clip."},
	{videostore.ErrNoCaptions, NotFound, "There are no captions in this language."},
	{videostore.ErrLanguage, InvalidParameter, "This is not the BCP 47 tag of a language, such as en or pt-BR."},
	{videostore.ErrLanguages, StateConflict, "This video has captions in as many languages as it may. Remove some."},
	{videostore.ErrOutside, InvalidBody, "The part is not inside the video."},
	{blobstore.ErrNotFound, NotFound, "There is no such file any more."},
	{videostore.ErrChanged, PreconditionFail, "The video was changed in the meantime. Read it again."},
	{videostore.ErrKeyUsed, IdempotencyMiss, "This Idempotency-Key was used with another body."},
	{videostore.ErrState, StateConflict, "The video is not in a state that allows this."},
	{apikeys.ErrNotFound, NotFound, "There is no such key."},
	{azqops.ErrNoQueue, QueueNotFound, "There is no such queue."},
	{azq.ErrNoPoison, PoisonNotFound, "There is no such poisoned item."},
	{azq.ErrRedriving, StateConflict, "This item is being redriven, or a redrive of it was cut off. Look again in a minute."},
	{registrations.ErrNotFound, NotFound, "No runner has this bib."},
	{registrations.ErrChanged, PreconditionFail, "The registration was changed in the meantime. Read it again."},
	{video.ErrInvalidID, InvalidID, "A video's id is 26 characters of a-z and 2-7."},
	{tablestore.ErrToken, InvalidPageToken, "The page token is not one of this query. Start from the first page."},
	{tablestore.ErrNotFound, NotFound, "There is no such row."},
	{tablestore.ErrChanged, PreconditionFail, "The row was changed in the meantime."},
	{board.ErrCrowded, TooBusy, "Too many watch the board."},
	{board.ErrClosed, StorageBusy, "This web role stops. Ask again: another one answers."},
	{context.Canceled, ClientClosed, "The client closed the connection."},
}

// answer maps any error to its answer.
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
		return New(Code{string(failure.Code), http.StatusUnsupportedMediaType}, "%s", failure.Detail)
	case errors.As(err, &tooLarge):
		return New(BodyTooLarge, "The body is larger than %d bytes.", tooLarge.Limit)
	case errors.As(err, &invalid):
		return New(Code{string(invalid.Code), http.StatusBadRequest}, "Not taken: %s.", invalid.Detail)
	case errors.As(err, &quota):
		return quotaProblem(quota)
	case errors.Is(err, videostore.ErrBusy):
		return New(TooBusy, "As much of this waits to be made as is allowed. Nothing was asked for; try again later.").After(5)
	case errors.Is(err, searchindex.ErrQueryTooLong):
		return New(InvalidParameter, "A search may have at most %d words.", searchindex.MaxWords)
	case azq.IsMissing(err):
		return New(QueueNotFound, "The queue does not exist yet.")
	}
	for _, a := range answers {
		if errors.Is(err, a.err) {
			return New(a.code, "%s", a.detail)
		}
	}
	var network net.Error // the service is away: the operator's trouble and no fault of the program
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, views.ErrContended), errors.Is(err, registrations.ErrContended),
		azstore.IsUnavailable(err):
		return away()
	case errors.As(err, &network):
		return New(StorageBusy, "Storage cannot be reached. Nothing is lost; try again soon.")
	}
	return New(Internal, internalErrorText)
}

// quotaProblem is 403 where only the owner can make room, and 429 where time will.
func quotaProblem(q *videostore.QuotaError) *Error {
	e := New(QuotaExceeded, "The quota %s of %d is used up; %d are left. Nothing was done.", q.Quota, q.Limit, q.Left)
	switch q.Quota {
	case videostore.QuotaStored:
		e.Code.Status, e.RetryAfter = http.StatusForbidden, 0
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
	return New(StorageBusy, "Storage is busy or away. Nothing is lost; try again soon.")
}
