package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// Commit is what the commit of a step writes, in one transaction.
type Commit[V, P any] struct {
	Output any      // JSON-encoded into the step row
	Plan   *P       // the first step's, else nil: the engine fills in what it keeps of it
	Edit   func(*V) // edits META; nil leaves it alone. May run several times
	// Files and Facts are what a step that runs once adds to META. The facts are anything that
	// encodes as a JSON object; the runner makes a file, facts.json, of large ones. Bounds:
	// MaxFiles, MaxFacts (bytes).
	Files []File
	Facts any
}

func (c Commit[V, P]) hasResults() bool { return len(c.Files) > 0 || c.Facts != nil }

// results returns what the commit adds to META, or what forbids that.
func (c Commit[V, P]) results(key Key, step Step) (made Made, err error) {
	made = Made{Step: key.Step, Generation: key.Generation, Files: c.Files}
	if c.Facts != nil {
		made.Facts, err = json.Marshal(c.Facts)
	}
	if step.Stage == OnRequest || step.Count != Once {
		err = errors.Join(err, errors.New("only a step that runs once leaves something with its subject"))
	}
	if len(made.Files) > MaxFiles || len(made.Facts) > MaxFacts {
		err = errors.Join(err, fmt.Errorf("%d files and %d bytes of facts are more than %d and %d", len(made.Files), len(made.Facts), MaxFiles, MaxFacts))
	}
	if err != nil {
		return made, fmt.Errorf("what %s leaves: %w", key, err)
	}
	return made, nil
}

// edited is META as the end of a run leaves it: planned by the first step, ready by the last.
func (c *Claim[V, P]) edited(run Run, commit Commit[V, P]) (V, error) {
	after, step := c.Subject, c.store.StepOf(run.Key)
	m := metaOf(&after)
	if commit.Plan != nil {
		m.Items = max(1, c.store.windowItems(planOf(*commit.Plan)))
		if m.State == Uploaded { // else the upload is still going on
			m.State = Processing
		}
	}
	if step.Stage == Last && run.State == RunDone {
		m.State, m.Playable, m.Error = Ready, true, nil
		m.Serving, m.ReadyAt = run.Key.Generation, Now()
	}
	if commit.Edit != nil {
		commit.Edit(&after)
	}
	if commit.hasResults() {
		made, err := commit.results(run.Key, step)
		if err != nil {
			return after, err
		}
		m.SetMade(made)
	}
	m.UpdatedAt = Now()
	return after, nil
}

// Commit ends the step in one entity-group transaction: step row (If-Match: the fence),
// plan, META, part and outbox. The messages are sent by SendOutbox, after the commit and
// before the message is deleted. ErrSuperseded when another attempt owns the row,
// ErrGone when the subject was deleted or cancelled meanwhile. Safe to repeat: a commit
// whose reply was lost is recognised by its attempt (paper row Q13).
func (c *Claim[V, P]) Commit(ctx context.Context, commit Commit[V, P]) error {
	output, err := json.Marshal(commit.Output)
	if err != nil {
		return fmt.Errorf("encode output of %s: %w", c.Run.Key, err)
	}
	if commit.Plan != nil {
		p := any(commit.Plan).(planDocument).plan()
		p.Generation = c.Run.Key.Generation
		if p.Promises == nil { // else it says what it promises
			p.Promises = c.store.Promises(*commit.Plan)
		}
	}
	done := c.Run
	done.State, done.Output, done.FinishedAt, done.Error = RunDone, output, Now(), nil
	return c.end(ctx, done, OutcomeDone, nil, commit)
}

// Fail ends the step with a permanent failure. Unless the step fails alone, the same
// transaction fails the subject.
func (c *Claim[V, P]) Fail(ctx context.Context, failure *Failure) error {
	step := c.store.StepOf(c.Run.Key)
	return c.end(ctx, c.Run.failed(failure), OutcomeFailed, failure, failing[V, P](step, failure, step.Withdraws))
}

// FailStep is Fail for a step whose attempts are used up, and does what comes after it. Call
// it before the item is put into the poison queue. A step that is done or no longer wanted
// stays as it is. Safe to repeat.
func (s *Store[V, P]) FailStep(ctx context.Context, key Key, failure *Failure) error {
	c, err := s.unclaimed(ctx, key)
	if err == nil {
		run := c.Run
		run.exhausted()
		err = c.end(ctx, run.failed(failure), "", nil, failing[V, P](s.StepOf(key), failure, false))
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

// failed is the run with a failure.
func (r Run) failed(failure *Failure) Run {
	r.State, r.Error, r.FinishedAt = RunFailed, failure, Now()
	return r
}

// failing fails the subject with a step, unless that fails alone.
func failing[V, P any](step Step, failure *Failure, withdraws bool) Commit[V, P] {
	if step.IsOptional() {
		return Commit[V, P]{}
	}
	return Commit[V, P]{Edit: func(v *V) {
		m := metaOf(v)
		m.State, m.Error = Failed, failure
		if withdraws {
			m.Serving, m.Playable = 0, false
		}
	}}
}

// SendOutbox enqueues what the commit promised. If the process dies before that, the next
// delivery or the reconciler does it by Flush. Safe to repeat.
func (c *Claim[V, P]) SendOutbox(ctx context.Context) error {
	return c.store.sendRows(ctx, c.Run.Key.ID, c.outbox)
}

// usage is what the attempt has spent, with the write that records it and with what
// sending takes. nil when nothing counts.
func (c *Claim[V, P]) usage(messages, rows int) *Usage {
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
// is added to a subject that is being purged.
func (c *Claim[V, P]) end(ctx context.Context, run Run, outcome Outcome, cause error, commit Commit[V, P]) error {
	last := c.store.StepOf(run.Key).Stage == Last
	changes := commit.Edit != nil || commit.Plan != nil || commit.hasResults() || last
	for again := true; again; {
		more, next, err := c.fanOut(ctx, run, commit)
		if err != nil {
			return err
		}
		if changes {
			next = append(next, c.store.FollowMessage())
		}
		c.outbox = outboxRows(ctx, run.Key.ID, next)
		ended, after := run, c.Subject
		if outcome != "" {
			ended.ended(outcome, run.FinishedAt, cause, c.usage(len(next), len(c.outbox)))
		}
		ops := []tablestore.Op{tablestore.Over(ended.row(), c.Run.etag)}
		if changes {
			if after, err = c.edited(run, commit); err != nil {
				return err
			}
			ops = append(ops, tablestore.Over(metaRow(after), c.ETag))
		} else if c.Run.etag == "" {
			ops = append(ops, c.unchangedMeta())
		}
		_, err = c.store.subjects.Submit(ctx, slices.Concat(ops, more, inserted(c.outbox)))
		if again, err = c.conflict(ctx, run, err); err != nil {
			return err
		}
		if !again {
			c.store.notifyAttempt(c.Run, ended, c.Plan)
			c.store.notifySubject(c.Subject, after)
		}
	}
	return nil
}

// planned is what the commit of a plan writes and promises.
func (c *Claim[V, P]) planned(plan P) ([]tablestore.Op, []OutboxMessage) {
	m, s := c.Meta(), c.store
	r := s.promisesAfter(m, plan, noPromises)
	return []tablestore.Op{
		{Kind: tablestore.OpUpsert, Entity: planRow(m.ID, plan)},
		{Kind: tablestore.OpUpsert, Entity: r.row(m.ID, planOf(plan).Generation)},
	}, s.promisedSince(m, plan, noPromises, r)
}

// fanOut returns what the end of a step promises, and what it writes to do so.
func (c *Claim[V, P]) fanOut(ctx context.Context, ended Run, commit Commit[V, P]) ([]tablestore.Op, []OutboxMessage, error) {
	step := c.store.StepOf(ended.Key)
	switch {
	case ended.State != RunDone:
		return nil, nil, nil
	case commit.Plan != nil:
		ops, next := c.planned(*commit.Plan)
		return ops, next, nil
	case step.Leads:
		return c.advance(ctx)
	case step.Stage == Last:
		return nil, c.store.promisedIn(c.Meta(), planOf(c.Plan), AfterReady), nil
	}
	return nil, nil, nil
}

// advance returns what a commit of the leading step writes to promise its next runs: the row
// NEXT under its ETag, and the messages. Both are empty when every run is promised.
func (c *Claim[V, P]) advance(ctx context.Context) ([]tablestore.Op, []OutboxMessage, error) {
	m, s := c.Meta(), c.store
	all := s.windowItems(planOf(c.Plan))
	before, err := s.cursor(ctx, m.ID, planOf(c.Plan).Generation)
	if err != nil || before.Partial || before.Items >= all {
		return nil, nil, err
	}
	m.State = Processing // the claim may have read META before the upload was complete
	r := before
	r.Items++
	next := s.promisedSince(m, c.Plan, before, r)
	// An error here does not fail the commit: the window then stays as it is.
	if waiting, err := s.sender.Waiting(ctx, next[0].Queue); err == nil && !waiting && r.Items < all {
		r.Items++
		next = s.promisedSince(m, c.Plan, before, r)
	}
	return []tablestore.Op{r.replace(m.ID, planOf(c.Plan).Generation)}, next, nil
}

// conflict finds out why a transaction was refused, if it was: it had succeeded and its reply
// was lost (no error), another attempt owns the step (ErrSuperseded), or META was changed (again).
func (c *Claim[V, P]) conflict(ctx context.Context, run Run, cause error) (again bool, _ error) {
	if !tablestore.Overtaken(cause) {
		return false, cause
	}
	now, err := c.store.ReadRun(ctx, run.Key)
	switch {
	case errors.Is(err, ErrNoRun) && c.Run.etag == "":
	case errors.Is(err, ErrNoRun):
		return false, ErrGone
	case err != nil:
		return false, err
	case now.Attempt != c.Run.Attempt:
		return false, ErrSuperseded
	case now.State == run.State:
		return false, nil // the first request had succeeded
	}
	c.Run.etag = now.etag
	rec, err := c.Active(ctx)
	if err == nil {
		c.Record = rec
	}
	return err == nil, err
}

// Follow does what comes after the end of a gate or a part, when its messages are sent: parts
// may be due now, or the subject playable, or complete. Safe to repeat.
func (c *Claim[V, P]) Follow(ctx context.Context) error {
	key, s := c.Run.Key, c.store
	step := s.StepOf(key)
	if step.Stage != Gate && step.Stage != Part && step.Stage != AfterReady {
		return nil
	}
	doc, err := s.Plan(ctx, key.ID, key.Generation)
	if err != nil {
		return err
	}
	plan := planOf(doc)
	stage := step.in(plan).Stage
	if stage == AfterReady {
		return nil
	}
	if c.Meta().Playable && stage == Part { // while runs are to be promised, not every part has ended
		if next, err := s.cursor(ctx, key.ID, key.Generation); err != nil || next.Items < s.windowItems(plan) {
			return err
		}
	}
	view, err := s.View(ctx, key.ID)
	if errors.Is(err, ErrNotFound) || err == nil && view.Meta().Generation != key.Generation {
		return nil
	}
	if err == nil {
		view.Record, err = s.MarkPlayable(ctx, view)
	}
	if err == nil {
		_, err = s.FanIn(ctx, view)
	}
	return err
}
