package problem

import (
	"context"
	"errors"
	"net/http"

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
)

// from maps any error to its answer and to the storage service's code, if
// storage had a part in it.
func from(err error) (*Error, string) {
	_, storageCode, _ := azstorage.Describe(err)

	var known *Error
	var failure *video.Failure
	var tooLarge *http.MaxBytesError
	var invalid *registrations.Invalid
	switch {
	case errors.As(err, &known):
		return known, storageCode
	case errors.As(err, &failure):
		return New(http.StatusUnsupportedMediaType, string(failure.Code), "%s", failure.Detail), storageCode
	case errors.As(err, &tooLarge):
		return New(http.StatusRequestEntityTooLarge, BodyTooLarge, "The body is larger than %d bytes.", tooLarge.Limit), storageCode
	case errors.Is(err, videostore.ErrNotFound):
		return New(http.StatusNotFound, NotFound, "There is no such video."), storageCode
	case errors.Is(err, videostore.ErrNoClip):
		return New(http.StatusNotFound, NotFound, "There is no such clip."), storageCode
	case errors.Is(err, videostore.ErrNoCaptions):
		return New(http.StatusNotFound, NotFound, "There are no captions in this language."), storageCode
	case errors.Is(err, videostore.ErrLanguage):
		return New(http.StatusBadRequest, InvalidParameter, "This is not the BCP 47 tag of a language, such as en or pt-BR."), storageCode
	case errors.Is(err, videostore.ErrLanguages):
		return New(http.StatusConflict, StateConflict, "This video has captions in as many languages as it may. Remove some."), storageCode
	case errors.Is(err, videostore.ErrOutside):
		return New(http.StatusBadRequest, InvalidBody, "The part is not inside the video."), storageCode
	case errors.Is(err, blobstore.ErrNotFound):
		return New(http.StatusNotFound, NotFound, "There is no such file any more."), storageCode
	case errors.Is(err, videostore.ErrChanged):
		return New(http.StatusPreconditionFailed, PreconditionFail, "The video was changed in the meantime. Read it again."), storageCode
	case errors.Is(err, videostore.ErrBusy):
		e := New(http.StatusTooManyRequests, TooBusy, "As much of this waits to be made as is allowed. Nothing was asked for; try again later.")
		e.RetryAfter = 5
		return e, storageCode
	case errors.Is(err, videostore.ErrKeyUsed):
		return New(http.StatusConflict, IdempotencyMiss, "This Idempotency-Key was used with another body."), storageCode
	case errors.Is(err, videostore.ErrState):
		return New(http.StatusConflict, StateConflict, "The video is not in a state that allows this."), storageCode
	case errors.As(err, &invalid):
		return New(http.StatusBadRequest, string(invalid.Code), "Not taken: %s.", invalid.Detail), storageCode
	case errors.Is(err, registrations.ErrNotFound):
		return New(http.StatusNotFound, NotFound, "Nobody has this bib."), storageCode
	case errors.Is(err, registrations.ErrChanged):
		return New(http.StatusPreconditionFailed, PreconditionFail, "The registration was changed in the meantime. Read it again."), storageCode
	case errors.Is(err, video.ErrInvalidID):
		return New(http.StatusBadRequest, InvalidID, "A video's id is 26 characters of a-z and 2-7."), storageCode
	case errors.Is(err, tablestore.ErrToken), errors.Is(err, rowstream.ErrBadToken):
		return New(http.StatusBadRequest, InvalidPageToken, "The page token is not one of this query. Start from the first page."), storageCode
	case errors.Is(err, searchindex.ErrQueryTooLong):
		return New(http.StatusBadRequest, InvalidParameter, "A search may have at most %d words.", searchindex.MaxWords), storageCode
	case workqueue.IsMissing(err):
		return New(http.StatusNotFound, QueueNotFound, "The queue does not exist yet."), storageCode
	case errors.Is(err, context.Canceled):
		return New(statusClientGone, ClientClosed, "The client closed the connection."), storageCode
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, views.ErrContended), errors.Is(err, registrations.ErrContended),
		azstorage.IsUnavailable(err):
		return away(), storageCode
	}
	if unreachable(err) {
		return New(http.StatusServiceUnavailable, StorageBusy, "Storage cannot be reached. Nothing is lost; try again soon."), storageCode
	}
	return New(http.StatusInternalServerError, Internal, internalErrorText), storageCode
}

func away() *Error {
	return New(http.StatusServiceUnavailable, StorageBusy, "Storage is busy or away. Nothing is lost; try again soon.")
}
