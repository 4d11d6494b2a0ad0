package scenes

import (
	"context"
	"errors"
	"time"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/workqueue"
)

var staleQueue = workqueue.Spec{Name: "work", Visibility: time.Second}

// staleReceipt shows that a receipt is worth something until somebody else receives
// the message, and what the service answers then: 400 PopReceiptMismatch while the
// other works, 404 MessageNotFound when the other has finished (Q17).
func staleReceipt(ctx context.Context, s *Stage) error {
	if err := s.Prepare(ctx, staleQueue); err != nil {
		return err
	}
	frozen, awake := s.Desk("frozen", staleQueue), s.Desk("awake", staleQueue)
	s.Say("Two films wait. A worker receives both, each hidden for %v, and then it freezes: its machine sleeps, or its memory is full.", staleQueue.Visibility)
	for _, film := range []string{"film 1", "film 2"} {
		if err := s.Desk("producer", staleQueue).put(ctx, "film", film, nil); err != nil {
			return err
		}
	}
	held, err := frozen.Receive(ctx, 2)
	if err != nil {
		return err
	}
	if len(held) != 2 {
		return errors.New("the worker did not get both films")
	}
	s.Act("frozen", "freezes")
	if err := sleep(ctx, time.Until(held[0].Deadline())); err != nil {
		return err
	}
	s.Say("The visibility timeout ends, and another worker receives both films. It finishes %s and still works on %s.", id(held[0]), id(held[1]))
	again := map[string]*workqueue.Lease{}
	taken, err := awake.takeAll(ctx, len(held))
	if err != nil {
		return err
	}
	for _, lease := range taken {
		again[id(lease)] = lease
	}
	s.Claim(again[id(held[0])] != nil && again[id(held[1])] != nil, "the other worker has the same two films")
	if err := again[id(held[0])].Complete(ctx); err != nil {
		return err
	}
	s.Say("Now the frozen worker wakes. It knows nothing of this, and tries to delete both with the receipts that it has.")
	s.Act("frozen", "wakes")
	for i, code := range []string{azstorage.CodeMessageNotFound, azstorage.CodePopReceiptMismatch} {
		if i == 1 { // the other one still works on it
			if err := again[id(held[1])].Renew(ctx); err != nil {
				return err
			}
		}
		err := held[i].Complete(ctx)
		s.Claim(errors.Is(err, workqueue.ErrLeaseLost) && azstorage.HasCode(err, code), "%s: the delete is refused with %s, which the lease reports as lost", id(held[i]), code)
	}
	s.Means("Both answers mean the same: the message is somebody else's now. The worker drops the item quietly and takes the next. It must not try again with the same receipt, and it must not undo what it did: the other worker may have used it.")
	if err := again[id(held[1])].Complete(ctx); err != nil {
		return err
	}
	state, err := awake.Length(ctx)
	if err != nil {
		return err
	}
	s.Claim(state.Length == 0, "each film was deleted by the worker whose receipt was the newest")
	return nil
}
