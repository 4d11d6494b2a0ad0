package pipeline

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// mute sends nothing.
type mute struct{}

func (mute) SendItem(context.Context, string, azq.Item, time.Duration) error { return nil }
func (mute) Lane(context.Context, string, bool) (int, bool)                  { return 0, false }
func (mute) Waiting(context.Context, string) (bool, error)                   { return true, nil }

// A claim reads META before it writes, so the video may be cancelled or gone by then. The
// step finds out when it begins, and not only when it has worked for a while.
func TestAStepOfAVideoThatWentMeanwhileStopsAtOnce(t *testing.T) {
	t.Parallel()
	account := azuritetest.Account(t)
	if err := account.Ensure(t.Context(), azstore.Names{Tables: videostore.Tables}); err != nil {
		t.Fatal(err)
	}
	videos := videostore.New(account, mute{})
	id := engine.NewID()
	v := video.Video{Meta: engine.Meta{
		ID: id, Owner: video.LocalOwner, State: engine.AwaitingUpload,
		Upload: &engine.Upload{Bytes: 1, PartBytes: 1, Epoch: "e"},
	}}
	_, err := videos.Create(t.Context(), v)
	if err == nil {
		_, err = videos.Uploaded(t.Context(), id, "e", "etag")
	}
	if err != nil {
		t.Fatal(err)
	}
	claim, err := videos.Claim(t.Context(), engine.Key{ID: id, Generation: 1, Step: workflow.StepProbe}, "m", "w", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := videos.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	r := &Runner{Watch: time.Hour}
	ctx, stop := context.WithTimeout(t.Context(), azuritetest.Patience(20*time.Second))
	defer stop()
	run := func(ctx context.Context, _ *delivery) error {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := r.watchVideo(ctx, &delivery{claim: claim}, run); !errors.Is(err, engine.ErrGone) {
		t.Errorf("%v, want ErrGone", err)
	}
}
