package videostore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// Commit is what the commit of a step writes, in one transaction.
type Commit struct {
	Output any                // JSON-encoded into the step row
	Plan   *video.Plan        // the first step's, else nil
	Video  func(*video.Video) // edits META; nil leaves it alone. May run several times
	// Files and Facts are what a step that runs once adds to META. The facts are anything that
	// encodes as a JSON object; the runner makes a file, facts.json, of large ones. Bounds:
	// video.MaxFiles, video.MaxFacts (bytes).
	Files []video.File
	Facts any
}

// changesVideo reports whether the commit changes META.
func (c Commit) changesVideo() bool {
	return c.Video != nil || c.Plan != nil || c.hasResults()
}

func (c Commit) hasResults() bool { return len(c.Files) > 0 || c.Facts != nil }

// results returns what the commit adds to META, or what forbids that.
func (c Commit) results(key workflow.Key) (made video.Made, err error) {
	made = video.Made{Step: key.Step, Generation: key.Generation, Files: c.Files}
	if c.Facts != nil {
		made.Facts, err = json.Marshal(c.Facts)
	}
	if step := key.Declared(); step.Stage == workflow.OnRequest || step.Count != workflow.Once && step.Count != workflow.IfSound {
		err = errors.Join(err, errors.New("only a step that runs once leaves something with its video"))
	}
	if len(made.Files) > video.MaxFiles || len(made.Facts) > video.MaxFacts {
		err = errors.Join(err, fmt.Errorf("%d files and %d bytes of facts are more than %d and %d", len(made.Files), len(made.Facts), video.MaxFiles, video.MaxFacts))
	}
	if err != nil {
		return made, fmt.Errorf("what %s leaves: %w", key, err)
	}
	return made, nil
}

// edited is the video as the commit of a step leaves it.
func (c Commit) edited(v video.Video, key workflow.Key) (video.Video, error) {
	if c.Video != nil {
		c.Video(&v)
	}
	if c.hasResults() {
		made, err := c.results(key)
		if err != nil {
			return v, err
		}
		v.SetMade(made)
	}
	if c.Plan != nil {
		v.Chunks = len(c.Plan.Chunks)
	}
	v.UpdatedAt = now()
	return v, nil
}

// Commit ends the step in one entity-group transaction: step row (If-Match: the fence),
// plan, META, part and outbox. The messages are sent by SendOutbox, after the commit and
// before the message is deleted. ErrSuperseded when another attempt owns the row,
// ErrGone when the video was deleted or cancelled meanwhile. Safe to repeat: a commit
// whose reply was lost is recognised by its attempt (paper row Q13).
func (c *Claim) Commit(ctx context.Context, commit Commit) error {
	output, err := json.Marshal(commit.Output)
	if err != nil {
		return fmt.Errorf("encode output of %s: %w", c.Step.Key, err)
	}
	done := c.Step
	done.State, done.Output, done.FinishedAt, done.Error = StepDone, output, now(), nil
	return c.end(ctx, done, OutcomeDone, nil, commit)
}

// Fail ends the step with a permanent failure. Unless the step fails alone, the same
// transaction fails the video.
func (c *Claim) Fail(ctx context.Context, failure *video.Failure) error {
	failed, commit := c.Step.failed(failure)
	if c.Step.Key.Declared().Withdraws {
		commit.Video = func(v *video.Video) {
			v.State, v.Error, v.Serving, v.Playable = video.Failed, failure, 0, false
		}
	}
	return c.end(ctx, failed, OutcomeFailed, failure, commit)
}

// FailStep is Fail for a step whose attempts are used up, and does what comes after it. Call
// it before the item is put into the poison queue. A step that is done or no longer wanted
// stays as it is. Safe to repeat.
func (s *Store) FailStep(ctx context.Context, key workflow.Key, failure *video.Failure) error {
	c, err := s.unclaimed(ctx, key)
	if err == nil {
		step := c.Step
		step.exhausted()
		step, commit := step.failed(failure)
		err = c.end(ctx, step, "", nil, commit)
	}
	switch {
	case errors.Is(err, ErrSuperseded): // claimed meanwhile
		return s.FailStep(ctx, key, failure)
	case errors.Is(err, ErrGone), errors.Is(err, ErrDone):
		return nil
	case err != nil:
		return fmt.Errorf("fail %s: %w", key, err)
	}
	if err := c.SendOutbox(ctx); err != nil {
		return err
	}
	return c.Follow(ctx)
}

// failed is the step with a failure, and what else that writes.
func (s Step) failed(failure *video.Failure) (Step, Commit) {
	s.State, s.Error, s.FinishedAt = StepFailed, failure, now()
	if s.Key.Declared().IsOptional() {
		return s, Commit{}
	}
	return s, Commit{Video: func(v *video.Video) { v.State, v.Error = video.Failed, failure }}
}

// SendOutbox enqueues what the commit promised. If the process dies before that, the next
// delivery or the reconciler does it by Flush. Safe to repeat.
func (c *Claim) SendOutbox(ctx context.Context) error {
	return c.store.sendRows(ctx, c.Step.Key.ID, c.outbox)
}

// usage is what the attempt has spent, with the write that records it and with what
// sending takes. nil when nothing counts.
func (c *Claim) usage(messages, rows int) *Usage {
	if c.Usage == nil {
		return nil
	}
	spent := c.Usage()
	spent.Add(Usage{Requests: map[azstore.RequestKind]int{azstore.TableWrite: 1, azstore.QueueWrite: messages, azstore.TableDelete: rows}})
	return &spent
}

// end writes how the step ended and all that comes of it, in one transaction; again while
// only META was in its way. outcome is that of the attempt, empty when none ends. META is in
// the transaction also when it stays as it is and the step gets its first row, so that no row
// is added to a video that is being purged.
func (c *Claim) end(ctx context.Context, step Step, outcome Outcome, cause error, commit Commit) error {
	for again := true; again; {
		more, next, err := c.fanOut(ctx, step, commit)
		if err != nil {
			return err
		}
		c.outbox = outboxRows(ctx, step.Key.ID, next)
		ended, after := step, c.Video
		if outcome != "" {
			ended.ended(outcome, step.FinishedAt, cause, c.usage(len(next), len(c.outbox)))
		}
		ops := []tablestore.Op{tablestore.Over(ended.row(), c.Step.etag)}
		if commit.changesVideo() {
			if after, err = commit.edited(c.Video, step.Key); err != nil {
				return err
			}
			ops = append(ops, tablestore.Over(metaRow(after), c.ETag))
		} else if c.Step.etag == "" {
			ops = append(ops, unchangedMeta(c.Record))
		}
		_, err = c.store.videos.Submit(ctx, slices.Concat(ops, more, inserted(c.outbox)))
		if again, err = c.conflict(ctx, step, err); err != nil {
			return err
		}
		if !again {
			c.store.notifyAttempt(c.Step, ended, c.Plan)
			c.store.notifyVideo(c.Video, after)
		}
	}
	return nil
}

// planned is what the commit of a plan writes and promises: its gates, or the first parts if
// there are none. While the upload goes on, only a gate that is early.
func (c *Claim) planned(plan video.Plan) ([]tablestore.Op, []OutboxMessage) {
	id, r := c.Step.Key.ID, firstPromises(c.Video, plan)
	if len(workflow.Promises(plan, workflow.Gate)) > 0 {
		r = heldPromises
	}
	messages := slices.DeleteFunc(promisedSince(c.Video, plan, noPromises, r), func(m OutboxMessage) bool {
		return c.Video.State == video.AwaitingUpload && !m.step.Early
	})
	return []tablestore.Op{
		{Kind: tablestore.OpUpsert, Entity: planRow(id, plan)},
		{Kind: tablestore.OpUpsert, Entity: r.row(id, plan.Generation)},
	}, messages
}

// fanOut returns what the end of a step promises, and what it writes to do so.
func (c *Claim) fanOut(ctx context.Context, ended Step, commit Commit) (ops []tablestore.Op, next []OutboxMessage, err error) {
	switch step := ended.Key.Declared(); {
	case ended.State != StepDone:
	case commit.Plan != nil:
		ops, next = c.planned(*commit.Plan)
	case step.Makes == workflow.Pictures:
		ops, next, err = c.advance(ctx)
	case step.Stage == workflow.Last:
		next = promisedIn(c.Video, c.Plan, workflow.AfterReady)
	}
	if commit.changesVideo() {
		next = append(next, FollowMessage())
	}
	return ops, next, err
}

// advance returns what a chunk's commit writes to promise the next chunks: the row NEXT
// under its ETag, and the messages. Both are empty when every chunk is promised.
func (c *Claim) advance(ctx context.Context) ([]tablestore.Op, []OutboxMessage, error) {
	id, plan := c.Step.Key.ID, c.Plan
	before, err := c.store.promised(ctx, id, plan)
	if err != nil || before.Partial || before.Chunks >= len(plan.Chunks) {
		return nil, nil, err
	}
	v, r := c.Video, before
	v.State = video.Processing // the claim may have read META before the upload was complete
	r.Chunks++
	next := promisedSince(v, plan, before, r)
	// An error here does not fail the commit: the window then stays as it is.
	if waiting, err := c.store.sender.Waiting(ctx, next[0].Queue); err == nil && !waiting && r.Chunks < len(plan.Chunks) {
		r.Chunks++
		next = promisedSince(v, plan, before, r)
	}
	return []tablestore.Op{r.replace(id, plan)}, next, nil
}

// conflict finds out why a transaction was refused, if it was: it had succeeded and its reply
// was lost (no error), another attempt owns the step (ErrSuperseded), or META was changed (again).
func (c *Claim) conflict(ctx context.Context, step Step, cause error) (again bool, _ error) {
	if !tablestore.Overtaken(cause) {
		return false, cause
	}
	now, err := c.store.step(ctx, step.Key)
	switch {
	case errors.Is(err, errNoStep) && c.Step.etag == "":
	case errors.Is(err, errNoStep):
		return false, ErrGone
	case err != nil:
		return false, err
	case now.Attempt != c.Step.Attempt:
		return false, ErrSuperseded
	case now.State == step.State:
		return false, nil // the first request had succeeded
	}
	c.Step.etag = now.etag
	rec, err := c.Active(ctx)
	if err == nil {
		c.Record = rec
	}
	return err == nil, err
}

// Follow does what comes after the end of a gate or a part, when its messages are sent: parts
// may be due now, or the video playable, or complete. Safe to repeat.
func (c *Claim) Follow(ctx context.Context) error {
	key := c.Step.Key
	step := key.Declared()
	if step.Stage != workflow.Gate && step.Stage != workflow.Part && step.Stage != workflow.AfterReady {
		return nil
	}
	plan, err := c.store.Plan(ctx, key.ID, key.Generation)
	stage := workflow.StageIn(plan, step)
	if err != nil || stage == workflow.AfterReady {
		return err
	}
	if c.Video.Playable && stage == workflow.Part { // while chunks are to be promised, not every part has ended
		if next, err := c.store.promised(ctx, key.ID, plan); err != nil || next.Chunks < len(plan.Chunks) {
			return err
		}
	}
	view, err := c.store.View(ctx, key.ID)
	if errors.Is(err, ErrNotFound) || err == nil && view.Video.Generation != key.Generation {
		return nil
	}
	if err == nil {
		view.Record, err = c.store.MarkPlayable(ctx, view)
	}
	if err == nil {
		_, err = c.store.FanIn(ctx, view)
	}
	return err
}
