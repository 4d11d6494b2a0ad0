package scenes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/workqueue"
	"github.com/cutroom/cutroom/shared/workqueue/consumer"
)

// A film is made in four portions. For each, the worker writes the output, then the
// row that says that it is there; when all are there it deletes the message. It is
// killed between the output and the row of portion 3, the worst moment: so that
// portion is made twice, with the same result (Q8), the first two are not made again
// (Q16c), and the message was not deleted too early (Q3).

var portionQueue = workqueue.Spec{Name: "films", Visibility: 2 * time.Second}

const (
	portions      = 4
	portionsTable = "portions"
	filmsBlobs    = "films"
	actorEncoder  = "encoder 1"
	killedIn      = 3 // the portion whose row is missing
)

func killedInTheMiddle(ctx context.Context, s *Stage) error {
	if err := s.Prepare(ctx, portionQueue); err != nil {
		return err
	}
	stage := s.Account("stage")
	if err := stage.Ensure(Quiet(ctx), []string{filmsBlobs}, nil, []string{portionsTable}); err != nil {
		return err
	}
	s.Say("A film is to be made. It is cut into %d portions, because a portion fits a short visibility timeout, %v, and the whole film does not.", portions, portionQueue.Visibility)
	if err := s.Desk("producer", portionQueue).put(ctx, "film", "film", nil); err != nil {
		return err
	}
	s.Say("Encoder 1, a process, works: output, then row, portion by portion. It will be killed after the output of portion %d, and before the row.", killedIn)
	first, err := s.Start(ctx, actorEncoder)
	if err != nil {
		return err
	}
	defer first.Kill()
	if err := first.Until(ctx, "at the worst moment"); err != nil {
		return err
	}
	first.Kill()
	s.Act(actorEncoder, "process %d is killed (SIGKILL)", first.PID())
	rows, blobs := tablestore.New(stage.Table(portionsTable)), blobstore.New(stage)
	before, err := rows.First(Quiet(ctx), tablestore.Query{PartitionKey: "film"}, portions)
	if err != nil {
		return err
	}
	orphan, err := blobs.Head(Quiet(ctx), filmsBlobs, portionName(killedIn))
	if err != nil {
		return err
	}
	s.Claim(len(before) == killedIn-1, "%d rows are there, and the output of portion %d, which no row knows", len(before), killedIn)
	state, err := s.Desk("stage", portionQueue).Length(Quiet(ctx))
	if err != nil {
		return err
	}
	s.Claim(state.Length == 1, "the message is still in the queue: it is deleted only when the work is done")

	s.Say("Encoder 2 gets the message when its visibility timeout has ended. It reads what is done, and goes on there.")
	second := &encoder{Stage: s, actor: "encoder 2"}
	if err := second.work(ctx); err != nil {
		return err
	}
	s.Claim(second.delivery == 2 && second.made == portions-(killedIn-1), "it made %d portions, and not the first %d again", second.made, killedIn-1)
	again, err := blobs.Head(Quiet(ctx), filmsBlobs, portionName(killedIn))
	if err != nil {
		return err
	}
	s.Claim(bytes.Equal(orphan.MD5, again.MD5) && orphan.ETag != again.ETag, "portion %d was written twice, with the same content: the second time did no harm", killedIn)
	if state, err = s.Desk("stage", portionQueue).Length(Quiet(ctx)); err != nil {
		return err
	}
	s.Claim(state.Length == 0, "the film is whole, and only now the message is gone")
	s.Means("The order decides: output, row, message. Had the row been written first, encoder 2 would have believed in a portion that is not there. Cutroom's order is the same, with the next message between the row and the delete.")
	return stopsInTime(ctx, s)
}

// stopsInTime lets renewals fail: the handler is told to stop before its visibility
// timeout ends, so that no two workers ever make one portion (Q16c).
func stopsInTime(ctx context.Context, s *Stage) error {
	spec := workqueue.Spec{Name: "portions", Steps: []string{"portion"}, Pool: "heavy", Visibility: 4 * time.Second, MaxIdlePoll: 100 * time.Millisecond}
	if err := s.Prepare(ctx, spec); err != nil {
		return err
	}
	s.Say("Not every worker that is in trouble dies. Encoder 3 works on a long portion, and none of its renewals arrives. It must stop while the message is still its own.")
	if err := s.Desk("producer", spec).put(Quiet(ctx), "portion", "a long portion", nil); err != nil {
		return err
	}
	var stopped sync.Once
	told := make(chan error, 1)
	left := time.Duration(0)
	var blackout atomic.Bool
	blackout.Store(true)
	stop, err := s.Consume(ctx, "encoder 3", []workqueue.Spec{spec}, consumer.Options{
		Pools: map[string]int{"heavy": 1},
		Handlers: map[string]consumer.Handler{"portion": consumer.HandlerFunc(func(ctx context.Context, job *consumer.Job) error {
			<-ctx.Done()
			stopped.Do(func() {
				left = time.Until(job.Received.Add(spec.Visibility))
				blackout.Store(false)
				told <- context.Cause(ctx)
			})
			return ctx.Err()
		})},
	}, onTheWay(func(r *http.Request) outcome {
		if blackout.Load() && isPut(r) && strings.Contains(r.URL.Path, "/messages/") {
			return broken
		}
		return through
	}))
	if err != nil {
		return err
	}
	defer stop()
	select {
	case err = <-told:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.Claim(errors.Is(err, workqueue.ErrLeaseEnding) && left > 0, "the handler was stopped with ErrLeaseEnding, %.1f s before the message becomes visible to others", left.Seconds())
	return nil
}

// encoder makes portions until the film is whole.
type encoder struct {
	*Stage
	actor    string
	dies     int // the portion whose row it does not live to write; 0: none
	delivery int64
	made     int
}

func (e *encoder) work(ctx context.Context) error {
	account := e.Account(e.actor)
	rows, blobs := tablestore.New(account.Table(portionsTable)), blobstore.New(account)
	lease, err := e.Desk(e.actor, portionQueue).take(ctx)
	if err != nil {
		return err
	}
	e.delivery = lease.DequeueCount()
	for portion := 1; portion <= portions; portion++ {
		_, err := rows.Get(ctx, "film", portionName(portion))
		switch {
		case err == nil:
			continue // an earlier delivery finished it
		case !errors.Is(err, tablestore.ErrNotFound):
			return err
		}
		content := fmt.Appendf(nil, "the pictures of portion %d", portion)
		if _, err := blobs.Put(ctx, filmsBlobs, portionName(portion), content, blobstore.Options{}); err != nil {
			return err
		}
		e.made++
		if portion == e.dies {
			e.Mark("at the worst moment")
			return e.Hang()
		}
		if _, err := rows.Insert(ctx, tablestore.Entity{PartitionKey: "film", RowKey: portionName(portion)}); err != nil {
			return err
		}
		if err := lease.Renew(ctx); err != nil { // one portion fits the timeout; all of them need not
			return err
		}
	}
	return lease.Complete(ctx)
}

func portionName(n int) string { return "portion-" + tablestore.Pad(int64(n), 2) }

func playEncoder(ctx context.Context, s *Stage) error {
	return (&encoder{Stage: s, actor: actorEncoder, dies: killedIn}).work(ctx)
}
