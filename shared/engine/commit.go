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

// editOf is all that the commit of a run changes in META, or nil: the first step has planned
// the subject, and the last one made it ready.
func (c *Claim[V, P]) editOf(commit Commit[V, P]) (edit func(*V), err error) {
	key, step := c.Run.Key, c.store.StepOf(c.Run.Key)
	var made Made
	leaves := len(commit.Files) > 0 || commit.Facts != nil
	if leaves {
		made, err = commit.results(key, step)
	}
	if !leaves && commit.Plan == nil && step.Stage != Last {
		return commit.Edit, nil
	}
	return func(v *V) {
		m := metaOf(v)
		if commit.Plan != nil {
			m.Items = max(1, c.store.windowItems(planOf(*commit.Plan)))
			if m.State == Uploaded { // else the upload is still going on
				m.State = Processing
			}
		}
		if step.Stage == Last {
			m.State, m.Playable, m.Error = Ready, true, nil
			m.Serving, m.ReadyAt = key.Generation, Now()
		}
		if commit.Edit != nil {
			commit.Edit(v)
		}
		if leaves {
			m.Made = append(slices.DeleteFunc(slices.Clone(m.Made), func(old Made) bool {
				needed := old.Generation == m.Serving || old.Generation == m.Generation
				return !needed || old.Step == made.Step && old.Generation == made.Generation
			}), made)
		}
	}, err
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
	if commit.Edit, err = c.editOf(commit); err != nil {
		return err
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
	if errors.Is(err, tablestore.ErrUnreadable) && c != nil && c.Run.State != RunDone {
		err = nil // of the plan, which may be why: no failure needs it
	}
	if err == nil {
		run := c.Run
		run.abandoned(Now())
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
	for again := true; again; {
		more, next, err := c.fanOut(ctx, run, commit)
		if err != nil {
			return err
		}
		if commit.Edit != nil {
			next = append(next, c.store.FollowMessage())
		}
		c.outbox = outboxRows(ctx, run.Key.ID, next)
		ended, after := run, c.Subject
		if outcome != "" {
			ended.ended(outcome, run.FinishedAt, cause, c.usage(len(next), len(c.outbox)))
		}
		ops := []tablestore.Op{tablestore.Over(ended.row(), c.Run.etag)}
		if commit.Edit != nil {
			commit.Edit(&after)
			metaOf(&after).UpdatedAt = Now()
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

// fanOut returns what the end of a step promises, and what it writes to do so.
func (c *Claim[V, P]) fanOut(ctx context.Context, ended Run, commit Commit[V, P]) ([]tablestore.Op, []OutboxMessage, error) {
	m, s := c.Meta(), c.store
	step := s.StepOf(ended.Key)
	switch {
	case ended.State != RunDone:
		return nil, nil, nil
	case commit.Plan != nil:
		plan := *commit.Plan
		r := s.promisesAfter(m, plan, noPromises, true)
		write := tablestore.Op{Kind: tablestore.OpUpsert, Entity: planRow(m.ID, plan)}
		return []tablestore.Op{write, r.op(m.ID, ended.Key.Generation)}, s.promisedSince(m, plan, noPromises, r), nil
	case step.Leads:
		return c.advance(ctx)
	case step.Stage == Last:
		return nil, s.promisedIn(m, planOf(c.Plan), AfterReady), nil
	}
	return nil, nil, nil
}

// advance returns what a commit of the leading step writes to promise its next runs: the row
// NEXT under its ETag, and the messages. Both are empty when every run is promised.
func (c *Claim[V, P]) advance(ctx context.Context) ([]tablestore.Op, []OutboxMessage, error) {
	m, s := c.Meta(), c.store
	all := s.windowItems(planOf(c.Plan))
	before, err := s.cursor(ctx, m.ID, c.Run.Key.Generation)
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
	return []tablestore.Op{r.op(m.ID, c.Run.Key.Generation)}, next, nil
}

// conflict finds out why a transaction was refused, if it was: it had succeeded and its reply
// was lost (no error), another attempt owns the step (ErrSuperseded), or META was changed (again).
func (c *Claim[V, P]) conflict(ctx context.Context, run Run, cause error) (again bool, _ error) {
	if !tablestore.Overtaken(cause) {
		return false, cause
	}
	now, err := c.store.unclaimed(ctx, run.Key)
	switch {
	case err != nil && !errors.Is(err, ErrDone):
		return false, err
	case now.Run.Attempt == c.Run.Attempt && now.Run.State == run.State:
		return false, nil // the first request had succeeded
	case now.Run.Attempt != c.Run.Attempt, err != nil:
		return false, ErrSuperseded
	}
	c.Run.etag, c.Record = now.Run.etag, now.Record
	return true, nil
}

// Follow does what comes after the end of a step, when its messages are sent: see FanIn. Safe to
// repeat.
func (c *Claim[V, P]) Follow(ctx context.Context) error {
	key, s := c.Run.Key, c.store
	stage := s.StepOf(key).Stage
	if stage == Last || stage == OnRequest || !c.Meta().Working() { // a plan may have promised as a part what is AfterReady today
		return nil
	}
	if stage != First && c.Meta().Playable { // while runs are to be promised, not every part has ended
		next, err := s.cursor(ctx, key.ID, key.Generation)
		if err != nil || !next.Held && next.Items < s.windowItems(planOf(c.Plan)) {
			return err
		}
	}
	return s.FanIn(ctx, key.ID)
}
