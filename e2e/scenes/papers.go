package scenes

import (
	"context"
	"time"

	"github.com/cutroom/cutroom/shared/workqueue"
)

// The paper's figure (Q11): producers P1 and P2 put messages 1 and 2; C1 dequeues
// message 1; C2 dequeues and deletes message 2; C1 crashes; message 1 becomes visible
// again; C2 dequeues and deletes it. C1 is a process of its own, and its crash is a
// SIGKILL.

// papersQueue hides a message for 3 s. The paper says 30; nobody likes to wait that long.
var papersQueue = workqueue.Spec{Name: "work", Visibility: 3 * time.Second}

const actorC1 = "C1"

func papersScene(ctx context.Context, s *Stage) error {
	if err := s.Prepare(ctx, papersQueue); err != nil {
		return err
	}
	s.Say("Producers P1 and P2 put one message each.")
	for i, producer := range []string{"P1", "P2"} {
		if err := s.Desk(producer, papersQueue).put(ctx, "film", []string{"message 1", "message 2"}[i], nil); err != nil {
			return err
		}
	}
	s.Say("Consumer C1, a process of its own, dequeues message 1. It is hidden from everybody else for %v.", papersQueue.Visibility)
	asked := time.Now()
	c1, err := s.Start(ctx, actorC1)
	if err != nil {
		return err
	}
	defer c1.Kill() // whatever happens below
	if err := c1.Until(ctx, "holds message 1"); err != nil {
		return err
	}

	s.Say("Consumer C2 dequeues the next message, does its work, and deletes it.")
	c2 := s.Desk("C2", papersQueue)
	done, err := finish(ctx, c2)
	if err != nil {
		return err
	}
	s.Claim(done == "message 2", "C2 got message 2, because message 1 is hidden")

	// snippet: crash-and-reappear
	c1.Kill()
	s.Act(actorC1, "process %d crashes (SIGKILL)", c1.PID())
	s.Means("C1 has deleted nothing and can say nothing more. Nobody is told of its death: message 1 is still in the queue, and hidden.")
	state, err := c2.Length(ctx)
	if err != nil {
		return err
	}
	s.Claim(state.Length == 1, "the queue holds one message, which nobody can see")

	s.Say("C2 looks for work until the visibility timeout of message 1 ends.")
	first, err := c2.take(ctx)
	if err != nil {
		return err
	}
	s.Claim(id(first) == "message 1" && first.DequeueCount() == 2, "C2 got message 1, in its second delivery")
	s.Claim(time.Since(asked) >= papersQueue.Visibility, "it was hidden for the whole visibility timeout")
	// end snippet
	if err := first.Complete(ctx); err != nil {
		return err
	}
	if state, err = c2.Length(ctx); err != nil {
		return err
	}
	s.Claim(state.Length == 0, "the queue is empty: no message was lost, although a consumer was")
	s.Means("Had C1 done its work and died just before the delete, C2 would have done that work again. So work must be safe to repeat.")
	return nil
}

// finish takes one message, whose work is nothing, and deletes it.
func finish(ctx context.Context, d desk) (string, error) {
	lease, err := d.take(ctx)
	if err != nil {
		return "", err
	}
	return id(lease), lease.Complete(ctx)
}

// playC1 dequeues one message, says so, and works on it for ever.
func playC1(ctx context.Context, s *Stage) error {
	lease, err := s.Desk(actorC1, papersQueue).take(ctx)
	if err != nil {
		return err
	}
	s.Mark("holds " + id(lease))
	return s.Hang()
}
