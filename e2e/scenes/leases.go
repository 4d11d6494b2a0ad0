package scenes

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/workqueue"
)

// The paper's trade-off (Q16a): a visibility timeout of 30 minutes covers work of 30
// minutes; a worker that crashes after 10 leaves the message hidden for 20 more. Here
// a minute is a fifth of a second: leases of 2 s outlive the pauses of a busy machine.
const minute = 200 * time.Millisecond

var (
	fixedQueue   = workqueue.Spec{Name: "fixed", Visibility: 30 * minute}
	renewedQueue = workqueue.Spec{Name: "renewed", Visibility: 10 * minute}
)

func fixedOrRenewed(ctx context.Context, s *Stage) error {
	if err := s.Prepare(ctx, fixedQueue, renewedQueue); err != nil {
		return err
	}
	s.Say("Work takes 30 minutes; a minute is a fifth of a second here. One queue hides a message for all of the 30 minutes. The other hides it for 10, and its worker renews the lease while it works. Both workers crash after 10 minutes.")
	for _, spec := range []workqueue.Spec{fixedQueue, renewedQueue} {
		if err := crashAndWait(ctx, s, spec); err != nil {
			return err
		}
	}
	s.Means("A fixed timeout must be as long as the longest work, and a crash costs the rest of it. A renewed lease may be short, whatever the work. It costs one request for each renewal, and a worker that hangs must not renew: Cutroom renews only while the work makes progress.")
	return nil
}

// crashAndWait lets a worker work for 10 minutes and crash, and tells how long the next
// one waits for its message.
func crashAndWait(ctx context.Context, s *Stage, spec workqueue.Spec) error {
	renews := spec.Name == renewedQueue.Name
	s.Say("Queue %s: a worker receives a film and works for 10 minutes.", spec.Name)
	if err := s.Desk("producer", spec).put(ctx, "film", "film", nil); err != nil {
		return err
	}
	first, second := s.Desk("worker 1", spec), s.Desk("worker 2", spec)
	lease, err := first.take(ctx)
	if err != nil {
		return err
	}
	for range 2 {
		if err := sleep(ctx, 5*minute); err != nil {
			return err
		}
		if renews {
			if err := lease.Renew(ctx); err != nil {
				return err
			}
		}
	}
	s.Act("worker 1", "crashes")
	crashed := time.Now()
	hidden := lease.Deadline().Sub(crashed)
	again, err := second.take(ctx)
	if err != nil {
		return err
	}
	minutes := func(d time.Duration) int { return int(math.Round(float64(d) / float64(minute))) }
	s.Claim(again.DequeueCount() == 2 && time.Since(crashed) >= hidden, "worker 2 has the film, and waited %d minutes for it", minutes(time.Since(crashed)))
	if renews {
		s.Claim(hidden <= spec.Visibility, "the message was hidden for %d minutes after the crash: never more than the short timeout", minutes(hidden))
	} else {
		s.Claim(lease.Deadline().Equal(lease.Received().Add(spec.Visibility)), "the message was hidden for %d minutes after the crash: the rest of the 30. The paper says 20", minutes(hidden))
	}
	return again.Complete(ctx)
}

var hastyQueue = workqueue.Spec{Name: "hasty", Visibility: time.Second}

// lateDeletes shows the paper's feedback (Q16d): deletes that come too late are
// counted, and past a threshold the visibility timeout is raised, for every role.
func lateDeletes(ctx context.Context, s *Stage) error {
	if err := s.Prepare(ctx, hastyQueue); err != nil {
		return err
	}
	slow, quick, web := s.Desk("slow worker", hastyQueue), s.Desk("other worker", hastyQueue), s.Desk("web role", hastyQueue)
	s.Say("Somebody declared a visibility timeout of %v for work that takes longer. Three items wait.", hastyQueue.Visibility)
	for _, film := range []string{"film 1", "film 2", "film 3"} {
		if err := s.Desk("producer", hastyQueue).put(Quiet(ctx), "film", film, nil); err != nil {
			return err
		}
	}
	held, err := slow.Receive(ctx, 3)
	if err != nil {
		return err
	}
	if len(held) != 3 {
		return errors.New("the worker did not get all three films")
	}
	if err := sleep(ctx, time.Until(held[0].Deadline())); err != nil {
		return err
	}
	s.Say("The timeout ends while the worker still works. Another worker receives the same items: all of this is done twice.")
	again, err := quick.takeAll(ctx, len(held))
	if err != nil {
		return err
	}
	s.Say("The slow worker has finished, and deletes. Each delete comes too late, and is counted.")
	for _, lease := range held {
		err := lease.Complete(ctx)
		s.Claim(errors.Is(err, workqueue.ErrLeaseLost) && azstorage.HasCode(err, azstorage.CodePopReceiptMismatch), "%s: refused, somebody else has it", id(lease))
	}
	if err := raised(ctx, s, slow, quick, web); err != nil {
		return err
	}
	for _, lease := range again {
		if err := lease.Complete(Quiet(ctx)); err != nil {
			return err
		}
	}
	if err := s.Desk("producer", hastyQueue).put(Quiet(ctx), "film", "film 4", nil); err != nil {
		return err
	}
	next, err := quick.take(ctx)
	if err != nil {
		return err
	}
	s.Claim(next.Visibility() == 2*time.Second, "the next message is hidden for 2 s, by any worker that receives it")
	return next.Complete(Quiet(ctx))
}

// raised lets one role raise the timeout, and the others learn of it.
func raised(ctx context.Context, s *Stage, slow, quick, web desk) error {
	s.Say("Three late deletes are the threshold. The worker raises the timeout by half, to whole seconds, and publishes it in the queue's metadata, under a blob lease so that only one role writes.")
	if err := slow.Tune(ctx); err != nil {
		return err
	}
	s.Claim(slow.Visibility() == 2*time.Second, "the worker now hides messages for %v", slow.Visibility())
	s.Say("Every other role reads the metadata with the length, which it asks for anyway.")
	if _, err := web.Length(ctx); err != nil {
		return err
	}
	if _, err := quick.Length(ctx); err != nil {
		return err
	}
	s.Claim(web.Visibility() == 2*time.Second && quick.Visibility() == 2*time.Second, "the web role and the other worker know it, and nobody told them but the queue")
	return nil
}
