package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"
	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workers"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/shared/workqueue"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/scaling"
)

// workerMemory is how long a silent worker stays listed.
const workerMemory = 10 * time.Minute

// allQueues opens every queue and the poison queue beside it, in order.
func (s *Server) allQueues() (all []*workqueue.Queue) {
	for _, spec := range s.Queues.Specs() {
		all = append(all, s.Queues.Queue(spec.Name))
		if spec.Lane() == 0 { // the poison of other lanes goes there, too
			// Visibility is that of the queue: it is what a redriven item gets.
			all = append(all, s.OpenQueue(workqueue.Spec{Name: workqueue.PoisonName(spec.Name), Visibility: spec.Visibility}))
		}
	}
	return all
}

func isPoison(q *workqueue.Queue) bool { return q.Spec().Pool == "" }

// ListQueues implements GET /ops/queues: one request per queue reads length and
// policy together (paper rows Q4 and Q10).
func (s *Server) ListQueues(c *gin.Context) {
	items := make([]api.Queue, len(s.queues))
	group, ctx := errgroup.WithContext(c.Request.Context())
	for i, q := range s.queues {
		group.Go(func() error {
			state, err := q.Length(ctx)
			items[i] = api.Queue{
				Name: q.Name(), Length: state.Length, Paused: state.Policy.Paused,
				VisibilitySeconds: q.Visibility().Seconds(), Pool: api.Some(q.Spec().Pool), Poison: isPoison(q),
			}
			if workqueue.IsMissing(err) {
				return nil
			}
			return err
		})
	}
	err := group.Wait()
	reply(c, http.StatusOK, api.QueueList{Items: items}, err)
}

// queue is one that we declare.
func (s *Server) queue(name string) (*workqueue.Queue, error) {
	i := slices.IndexFunc(s.queues, func(q *workqueue.Queue) bool { return q.Name() == name })
	if i < 0 {
		return nil, problem.New(problem.QueueNotFound, "There is no such queue.")
	}
	return s.queues[i], nil
}

// onQueue runs an operation on a queue that we declare.
func (s *Server) onQueue(c *gin.Context, name string, do func(*workqueue.Queue, context.Context) error) {
	q, err := s.queue(name)
	if err == nil {
		err = do(q, c.Request.Context())
	}
	replyEmpty(c, http.StatusNoContent, err)
}

// ClearQueue implements POST /ops/queues/{queue}/clear, for all lanes when it is
// asked of lane 0. Work that a row promises comes back with the reconciler.
func (s *Server) ClearQueue(c *gin.Context, queue api.QueueName) {
	s.onQueue(c, queue, func(q *workqueue.Queue, ctx context.Context) error {
		if isPoison(q) {
			return q.Clear(ctx)
		}
		return s.Queues.Clear(ctx, queue)
	})
}

// PauseQueue implements POST /ops/queues/{queue}/pause.
func (s *Server) PauseQueue(c *gin.Context, queue api.QueueName) {
	s.onQueue(c, queue, (*workqueue.Queue).Pause)
}

// ResumeQueue implements POST /ops/queues/{queue}/resume.
func (s *Server) ResumeQueue(c *gin.Context, queue api.QueueName) {
	s.onQueue(c, queue, (*workqueue.Queue).Resume)
}

// PeekQueue implements GET /ops/queues/{queue}/messages.
func (s *Server) PeekQueue(c *gin.Context, queue api.QueueName, params api.PeekQueueParams) {
	q, err := s.queue(queue)
	var seen []workqueue.Peeked
	if err == nil {
		seen, err = q.Peek(c.Request.Context(), params.Limit)
	}
	reply(c, http.StatusOK, api.MessageList{Items: api.Each(seen, publicMessage)}, err)
}

func publicMessage(p workqueue.Peeked) api.Message {
	m := api.Message{Id: p.MessageID, DequeueCount: p.DequeueCount, InsertedAt: api.Time(p.Inserted)}
	if p.Err != nil {
		m.Error = api.Ptr(p.Err.Error())
	}
	if p.Item.ID == "" {
		return m
	}
	m.Type, m.Subject = api.Ptr(p.Item.Type()), api.Ptr(p.Item.Subject)
	m.Failures, m.LastError = api.Ptr(p.Item.Failures), api.Some(p.Item.LastError)
	var data any
	if json.Unmarshal(p.Item.Data, &data) == nil {
		m.Data = &data
	}
	return m
}

// ListPoison implements GET /ops/poison.
func (s *Server) ListPoison(c *gin.Context, params api.ListPoisonParams) {
	found, next, err := s.Queues.ListPoison(c.Request.Context(), params.Limit, params.PageToken)
	reply(c, http.StatusOK, api.PoisonList{Items: list(found), NextPageToken: api.Some(next)}, err)
}

// RedrivePoison implements POST /ops/poison/{poisonId}/redrive. A step whose
// failure failed its video would find itself unwanted, so the video is taken up
// again instead, which sends the step along with whatever else is missing.
func (s *Server) RedrivePoison(c *gin.Context, poisonID string) {
	replyEmpty(c, http.StatusAccepted, s.redrive(c.Request.Context(), poisonID))
}

func (s *Server) redrive(ctx context.Context, poisonID string) error {
	p, err := s.Queues.GetPoison(ctx, poisonID)
	if err != nil {
		return err
	}
	step, _ := workflow.Find(p.Step)
	if id, err := video.ParseID(p.Subject); err == nil && step.HasRows() && !step.IsOptional() {
		rec, err := s.Videos.Get(ctx, id)
		if err != nil && !errors.Is(err, videostore.ErrNotFound) {
			return err
		}
		if err == nil && rec.Video.State == video.Failed {
			if _, err := s.Videos.Retry(ctx, id); err != nil {
				return err
			}
			return s.Queues.DiscardPoison(ctx, poisonID)
		}
	}
	_, err = s.Queues.Redrive(ctx, poisonID)
	return err
}

// ListUnreadable implements GET /ops/unreadable.
func (s *Server) ListUnreadable(c *gin.Context, params api.ListUnreadableParams) {
	rows, next, err := s.Unreadable.List(c.Request.Context(), params.Limit, params.PageToken)
	reply(c, http.StatusOK, api.UnreadableList{Items: list(rows), NextPageToken: api.Some(next)}, err)
}

// DeleteUnreadable implements DELETE /ops/unreadable/{rowId}.
func (s *Server) DeleteUnreadable(c *gin.Context, rowID string) {
	ctx := c.Request.Context()
	row, err := s.Unreadable.Get(ctx, rowID)
	if id, isVideo := videostore.VideoOfMeta(row); err == nil && isVideo {
		_, err = s.Videos.Delete(ctx, id, "")
	} else if err == nil {
		err = s.Unreadable.Delete(ctx, row)
	}
	switch {
	case errors.Is(err, tablestore.ErrNotFound), errors.Is(err, videostore.ErrNotFound):
		err = problem.New(problem.NotFound, "There is no such row.").Because(err)
	case errors.Is(err, tablestore.ErrChanged):
		err = problem.New(problem.PreconditionFail, "The row has changed since it could not be read.").Because(err)
	}
	replyEmpty(c, http.StatusNoContent, err)
}

// ListWorkers implements GET /ops/workers.
func (s *Server) ListWorkers(c *gin.Context) {
	found, err := s.Workers.List(c.Request.Context(), time.Now().Add(-workerMemory))
	reply(c, http.StatusOK, api.WorkerList{Items: api.Each(found, publicWorker)}, err)
}

func publicWorker(w workers.Worker) api.Worker {
	out := api.Worker{Name: w.Name, LastSeenAt: w.SeenAt}
	var details map[string]any
	if doc, err := json.Marshal(w); err == nil && json.Unmarshal(doc, &details) == nil {
		out.Details = &details
	}
	return out
}

// GetScale implements GET /ops/scale (paper rows Q4 and Q18).
func (s *Server) GetScale(c *gin.Context) {
	handle(c, http.StatusOK, func(ctx context.Context) (out api.Scale, _ error) {
		state, err := s.Board.State(ctx)
		if err != nil {
			return out, fmt.Errorf("count the workers wanted: %w", err)
		}
		d := state.Decision
		return api.Scale{
			At: d.Seen.At.UTC(), Wanted: d.Wanted, Now: d.Now, Workers: d.Seen.Workers, Why: d.Why,
			Floor: d.Settings.Floor, Ceiling: d.Settings.Ceiling, BeginSeconds: d.Settings.Begin.Seconds(),
			BulkSeconds: d.Settings.Bulk.Seconds(), CoolDownSeconds: d.Settings.CoolDown.Seconds(), Queues: api.Each(d.Seen.Queues, publicQueue),
		}, nil
	})
}

func publicQueue(q scaling.Queue) api.ScaleQueue {
	return api.ScaleQueue{
		Name: q.Name, Pool: q.Pool, Urgent: q.Urgent, Paused: q.Paused, Visible: q.Visible, Hidden: q.Hidden,
		OldestSeconds: q.Oldest.Seconds(), SecondsEach: q.Each.Seconds(), WorkSeconds: q.Work().Seconds(),
	}
}
