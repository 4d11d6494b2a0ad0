package journey

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
)

// FinishClip asks for the finish of a runner, with so many seconds before and
// after it, and waits until it can be played. It ends with *Failed when the clip
// failed.
func (u *User) FinishClip(ctx context.Context, event string, bib int, before, after float64) (client.Clip, error) {
	clip, err := check[client.Clip](u.api.CreateFinishClipWithResponse(ctx, event, bib, client.NewFinishClip{BeforeSeconds: &before, AfterSeconds: &after})).
		as(http.StatusAccepted, "ask for the finish of bib %d", bib)
	if err != nil {
		return clip, err
	}
	return u.AwaitClip(ctx, clip)
}

// AwaitClip waits until a clip can be played. It ends with *Failed when the clip
// failed.
func (u *User) AwaitClip(ctx context.Context, clip client.Clip) (client.Clip, error) {
	for began := time.Now(); ; {
		switch clip.State {
		case client.ClipReady:
			return clip, nil
		case client.ClipFailed:
			return clip, &Failed{State: client.Failed, Code: clip.Error.Code, Detail: clip.Error.Detail}
		}
		if err := pause(ctx, pace(began)); err != nil {
			return clip, fmt.Errorf("wait for clip %s of %s, now %s: %w", clip.Id, clip.VideoId, clip.State, err)
		}
		now, err := check[client.Clip](u.api.GetClipWithResponse(ctx, clip.VideoId, clip.Id)).as(http.StatusOK, "get clip %s of %s", clip.Id, clip.VideoId)
		if err != nil {
			return clip, err
		}
		clip = now
	}
}
