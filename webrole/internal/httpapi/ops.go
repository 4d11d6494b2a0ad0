package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/shared/workqueue"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/board"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// workerMemory is how long a silent worker stays listed.
const workerMemory = 10 * time.Minute

// ListQueues implements GET /ops/queues: one request per queue reads length and
// policy together (paper rows Q4 and Q10).
func (s *Server) ListQueues(c *gin.Context) {
	items := make([]api.Queue, len(s.queueNames))
	errs := make([]error, len(items))
	var wg sync.WaitGroup
	for i, name := range s.queueNames {
		wg.Go(func() {
			q := s.byName[name]
			state, err := q.Length(c.Request.Context())
			if err != nil && !workqueue.IsMissing(err) {
				errs[i] = err
				return
			}
			items[i] = api.Queue{
				Name: name, Length: state.Length, Paused: state.Policy.Paused,
				VisibilitySeconds: q.Visibility().Seconds(), Poison: q.Spec().Pool == "",
			}
			if pool := q.Spec().Pool; pool != "" {
				items[i].Pool = &pool
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		abort(c, err)
		return
	}
	c.Header("Cache-Control", "no-store")
	c.JSON(http.StatusOK, api.QueueList{Items: items})
}

// openQueues opens every queue and the poison queue beside it, in order.
func (s *Server) openQueues(open func(workqueue.Spec) *workqueue.Queue) {
	s.byName = map[string]*workqueue.Queue{}
	for _, spec := range s.queues.Specs() {
		s.byName[spec.Name] = s.queues.Queue(spec.Name)
		s.queueNames = append(s.queueNames, spec.Name)
		if spec.Lane() > 0 {
			continue // its poison goes where that of lane 0 goes
		}
		poison := workqueue.PoisonName(spec.Name)
		// Visibility is that of the queue: it is what a redriven item gets.
		s.byName[poison] = open(workqueue.Spec{Name: poison, Visibility: spec.Visibility})
		s.queueNames = append(s.queueNames, poison)
	}
}

// onQueue runs an operation on a queue that we declare.
func (s *Server) onQueue(c *gin.Context, name string, do func(context.Context, *workqueue.Queue) error) {
	q := s.byName[name]
	if q == nil {
		abort(c, problem.New(http.StatusNotFound, problem.QueueNotFound, "There is no such queue."))
		return
	}
	if err := do(c.Request.Context(), q); err != nil {
		abort(c, err)
		return
	}
	if !c.Writer.Written() {
		c.Status(http.StatusNoContent)
		c.Writer.WriteHeaderNow()
	}
}

// ClearQueue implements POST /ops/queues/{queue}/clear, for all lanes when it is
// asked of lane 0. Work that a row promises comes back with the reconciler.
func (s *Server) ClearQueue(c *gin.Context, queue api.QueueName) {
	s.onQueue(c, queue, func(ctx context.Context, q *workqueue.Queue) error {
		if q.Spec().Pool == "" { // a poison queue
			return q.Clear(ctx)
		}
		return s.queues.Clear(ctx, queue)
	})
}

// PauseQueue implements POST /ops/queues/{queue}/pause.
func (s *Server) PauseQueue(c *gin.Context, queue api.QueueName) {
	s.onQueue(c, queue, func(ctx context.Context, q *workqueue.Queue) error { return q.Pause(ctx) })
}

// ResumeQueue implements POST /ops/queues/{queue}/resume.
func (s *Server) ResumeQueue(c *gin.Context, queue api.QueueName) {
	s.onQueue(c, queue, func(ctx context.Context, q *workqueue.Queue) error { return q.Resume(ctx) })
}

// PeekQueue implements GET /ops/queues/{queue}/messages.
func (s *Server) PeekQueue(c *gin.Context, queue api.QueueName, params api.PeekQueueParams) {
	limit := cmp.Or(value(params.Limit), workqueue.MaxBatch)
	s.onQueue(c, queue, func(ctx context.Context, q *workqueue.Queue) error {
		seen, err := q.Peek(ctx, limit)
		if err != nil {
			return err
		}
		items := make([]api.Message, len(seen))
		for i, p := range seen {
			items[i] = publicMessage(p)
		}
		c.Header("Cache-Control", "no-store")
		c.JSON(http.StatusOK, api.MessageList{Items: items})
		return nil
	})
}

func publicMessage(p workqueue.Peeked) api.Message {
	m := api.Message{Id: p.MessageID, DequeueCount: p.DequeueCount, InsertedAt: moment(p.Inserted)}
	if p.Err != nil {
		m.Error = ptr(p.Err.Error())
	}
	if p.Item.ID == "" {
		return m
	}
	m.Type = ptr(p.Item.Type())
	m.Subject, m.Failures = ptr(p.Item.Subject), ptr(p.Item.Failures)
	if p.Item.LastError != "" {
		m.LastError = ptr(p.Item.LastError)
	}
	var data any
	if json.Unmarshal(p.Item.Data, &data) == nil {
		m.Data = &data
	}
	return m
}

// ListPoison implements GET /ops/poison.
func (s *Server) ListPoison(c *gin.Context, params api.ListPoisonParams) {
	limit := cmp.Or(value(params.Limit), defaultLimit)
	found, next, err := s.queues.ListPoison(c.Request.Context(), limit, value(params.PageToken))
	if err != nil {
		abort(c, err)
		return
	}
	items := []api.Poison{}
	for _, p := range found {
		items = append(items, board.PoisonOf(p))
	}
	c.Header("Cache-Control", "no-store")
	c.JSON(http.StatusOK, api.PoisonList{Items: items, NextPageToken: nextToken(next)})
}

// RedrivePoison implements POST /ops/poison/{poisonId}/redrive. A step whose
// failure failed its video would find itself unwanted, so the video is taken up
// again instead, which sends the step along with whatever else is missing.
func (s *Server) RedrivePoison(c *gin.Context, poisonID string) {
	err := s.redrive(c.Request.Context(), poisonID)
	switch {
	case errors.Is(err, workqueue.ErrNoPoison):
		err = problem.New(http.StatusNotFound, problem.PoisonNotFound, "There is no such poisoned item.")
	case errors.Is(err, workqueue.ErrRedriving):
		err = problem.New(http.StatusConflict, problem.StateConflict, "This item is being redriven, or a redrive of it was cut off. Look again in a minute.")
	case err == nil:
		c.Status(http.StatusAccepted)
		c.Writer.WriteHeaderNow()
		return
	}
	abort(c, err)
}

func (s *Server) redrive(ctx context.Context, poisonID string) error {
	p, err := s.queues.GetPoison(ctx, poisonID)
	if err != nil {
		return err
	}
	step, _ := workflow.Find(p.Step)
	if id, err := video.ParseID(p.Subject); err == nil && step.HasRows() && !step.FailsAlone() {
		rec, err := s.videos.Get(ctx, id)
		if err != nil && !errors.Is(err, videostore.ErrNotFound) {
			return err
		}
		if err == nil && rec.Video.State == video.Failed {
			if _, err := s.videos.Retry(ctx, id); err != nil {
				return err
			}
			return s.queues.DiscardPoison(ctx, poisonID)
		}
	}
	_, err = s.queues.Redrive(ctx, poisonID)
	return err
}

// ListUnreadable implements GET /ops/unreadable.
func (s *Server) ListUnreadable(c *gin.Context, params api.ListUnreadableParams) {
	rows, next, err := s.unreadable.List(c.Request.Context(), cmp.Or(value(params.Limit), defaultLimit), value(params.PageToken))
	if err != nil {
		abort(c, err)
		return
	}
	items := []api.UnreadableRow{}
	for _, r := range rows {
		items = append(items, api.UnreadableRow{Id: r.ID, Table: r.Table, PartitionKey: r.PartitionKey, RowKey: r.RowKey, Reason: r.Reason, SeenAt: r.SeenAt})
	}
	c.Header("Cache-Control", "no-store")
	c.JSON(http.StatusOK, api.UnreadableList{Items: items, NextPageToken: nextToken(next)})
}

// DeleteUnreadable implements DELETE /ops/unreadable/{rowId}.
func (s *Server) DeleteUnreadable(c *gin.Context, rowID string) {
	ctx := c.Request.Context()
	row, err := s.unreadable.Get(ctx, rowID)
	if id, isVideo := videostore.OfMeta(row); err == nil && isVideo {
		_, err = s.videos.Delete(ctx, id, "")
	} else if err == nil {
		err = s.unreadable.Delete(ctx, row)
	}
	switch {
	case errors.Is(err, tablestore.ErrNotFound), errors.Is(err, videostore.ErrNotFound):
		err = problem.New(http.StatusNotFound, problem.NotFound, "There is no such row.").Because(err)
	case errors.Is(err, tablestore.ErrChanged):
		err = problem.New(http.StatusPreconditionFailed, problem.PreconditionFail, "The row has changed since it could not be read.").Because(err)
	case err == nil:
		c.Status(http.StatusNoContent)
		c.Writer.WriteHeaderNow()
		return
	}
	abort(c, err)
}

// ListWorkers implements GET /ops/workers.
func (s *Server) ListWorkers(c *gin.Context) {
	found, err := s.workers.List(c.Request.Context(), time.Now().Add(-workerMemory))
	if err != nil {
		abort(c, err)
		return
	}
	items := []api.Worker{}
	for _, w := range found {
		item := api.Worker{Name: w.Name, LastSeenAt: w.SeenAt}
		var details map[string]any
		if doc, err := json.Marshal(w); err == nil && json.Unmarshal(doc, &details) == nil {
			item.Details = &details
		}
		items = append(items, item)
	}
	c.Header("Cache-Control", "no-store")
	c.JSON(http.StatusOK, api.WorkerList{Items: items})
}
