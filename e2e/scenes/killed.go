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

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

var (
	_ = register(programs, "killed-in-the-middle", killedInTheMiddle)
	_ = register(children, actorEncoder, playEncoder)
)

// A film is made in four portions. For each, the worker writes the output, then the
// row that says that it is there; when all are there it deletes the message. It is
// killed between the output and the row of portion 3, the worst moment: so that
// portion is made twice, with the same result (Q8), the first two are not made again
// (Q16c), and the message was not deleted too early (Q3).

var portionQueue = azq.Spec{Name: "films", Visibility: 2 * time.Second}

const (
	portions      = 4
	portionsTable = "portions"
	filmsBlobs    = "films"
	actorEncoder  = "encoder 1"
	killedIn      = 3 // the portion whose row is missing
)

func killedInTheMiddle(s *Stage) {
	s.Prepare(portionQueue)
	s.Ensure([]string{filmsBlobs}, portionsTable)
	s.Desk("producer", portionQueue).put("film", "film")
	s.Next(killedIn)
	first := s.Start(actorEncoder)
	defer first.Kill()
	first.Until("at the worst moment")
	first.Kill()
	s.Next(first.PID())
	queue, blobs := s.Desk("stage", portionQueue).quiet(), s.Blobs("stage")
	rows := get(s.Table("stage", portionsTable).First(queue.ctx, tablestore.Query{PartitionKey: "film"}, portions))
	orphan := get(blobs.Head(queue.ctx, filmsBlobs, portionName(killedIn)))
	s.Claim(len(rows) == killedIn-1, len(rows), killedIn)
	s.Claim(queue.length() == 1)

	second := &encoder{Stage: s, actor: "encoder 2"}
	second.work()
	s.Claim(second.delivery == 2 && second.made == portions-(killedIn-1), second.made, killedIn-1)
	again := get(blobs.Head(queue.ctx, filmsBlobs, portionName(killedIn)))
	s.Claim(bytes.Equal(orphan.MD5, again.MD5) && orphan.ETag != again.ETag, killedIn)
	s.Claim(queue.length() == 0)
	stopsInTime(s)
}

// stopsInTime lets renewals fail: the handler is told to stop before its visibility
// timeout ends, so that no two workers ever make one portion (Q16c).
func stopsInTime(s *Stage) {
	spec := azq.Spec{Name: "portions", Kinds: []string{"portion"}, Pool: "heavy", Visibility: 4 * time.Second, MaxIdlePoll: 100 * time.Millisecond}
	s.Prepare(spec)
	s.Desk("producer", spec).quiet().put("portion", "a long portion")
	var stopped sync.Once
	told := make(chan error, 1)
	left := time.Duration(0)
	var blackout atomic.Bool
	blackout.Store(true)
	stop := s.Consume(s.ctx, "encoder 3", spec, azq.Options{
		Handlers: map[string]azq.Handler{"portion": azq.HandlerFunc(func(ctx context.Context, job *azq.RawJob) error {
			<-ctx.Done()
			stopped.Do(func() {
				left = time.Until(job.Received.Add(spec.Visibility))
				blackout.Store(false)
				told <- context.Cause(ctx)
			})
			return ctx.Err()
		})},
	}, onTheWay(func(r *http.Request) inject.Fault {
		if blackout.Load() && isPut(r) && strings.Contains(r.URL.Path, "/messages/") {
			return inject.Reset
		}
		return inject.None
	}))
	defer stop()
	select {
	case err := <-told:
		s.Claim(errors.Is(err, azq.ErrLeaseEnding) && left > 0, left.Seconds())
	case <-s.ctx.Done():
		must(context.Cause(s.ctx))
	}
}

// encoder makes portions until the film is whole.
type encoder struct {
	*Stage
	actor    string
	dies     int // the portion whose row it does not live to write; 0: none
	delivery int64
	made     int
}

func (e *encoder) work() {
	rows, blobs, desk := e.Table(e.actor, portionsTable), e.Blobs(e.actor), e.Desk(e.actor, portionQueue)
	lease := desk.takeOne()
	e.delivery = lease.DequeueCount
	for portion := 1; portion <= portions; portion++ {
		_, err := rows.Get(e.ctx, "film", portionName(portion))
		if err == nil {
			continue // an earlier delivery finished it
		}
		if !errors.Is(err, tablestore.ErrNotFound) {
			must(err)
		}
		get(blobs.Put(e.ctx, filmsBlobs, portionName(portion), fmt.Appendf(nil, "the pictures of portion %d", portion), blobstore.Options{}))
		e.made++
		if portion == e.dies {
			e.Mark("at the worst moment")
			e.Hang()
		}
		get(rows.Insert(e.ctx, tablestore.Entity{PartitionKey: "film", RowKey: portionName(portion)}))
		must(lease.Renew(e.ctx, nil)) // one portion fits the timeout; all of them need not
	}
	desk.delete(lease)
}

func portionName(n int) string { return "portion-" + tablestore.Pad(int64(n), 2) }

func playEncoder(s *Stage) { (&encoder{Stage: s, actor: actorEncoder, dies: killedIn}).work() }
