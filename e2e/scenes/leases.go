package scenes

import (
	"errors"
	"math"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
)

var (
	_ = register(programs, "stale-receipt", staleReceipt)
	_ = register(programs, "fixed-or-renewed", fixedOrRenewed)
	_ = register(programs, "late-deletes", lateDeletes)
)

var staleQueue = azq.Spec{Name: "work", Visibility: time.Second}

// staleReceipt shows that a receipt is valid until another worker receives the message,
// and what the service answers then: 400 PopReceiptMismatch while the other works, 404
// MessageNotFound when the other has finished (Q17).
func staleReceipt(s *Stage) {
	s.Prepare(staleQueue)
	frozen, awake := s.Desk("frozen", staleQueue), s.Desk("awake", staleQueue)
	s.Desk("producer", staleQueue).put("film", "film 1", "film 2")
	held := frozen.take(2)
	s.Next()
	must(sleep(s.ctx, time.Until(held[0].Deadline())))
	s.Next(id(held[0]), id(held[1]))
	again := map[string]*azq.Lease{}
	for _, lease := range awake.take(len(held)) {
		again[id(lease)] = lease
	}
	done, atWork := again[id(held[0])], again[id(held[1])]
	s.Claim(done != nil && atWork != nil)
	awake.delete(done)
	s.Next()
	late := func(lease *azq.Lease, code queueerror.Code) {
		err := lease.Complete(s.ctx)
		s.Claim(errors.Is(err, azq.ErrLeaseLost) && azstore.HasCode(err, code), id(lease), code)
	}
	late(held[0], queueerror.MessageNotFound)
	must(atWork.Renew(s.ctx, nil))
	late(held[1], queueerror.PopReceiptMismatch)
	awake.delete(atWork)
	s.Claim(awake.length() == 0)
}

// The paper's trade-off (Q16a): a visibility timeout of 30 minutes covers work of 30
// minutes; a worker that crashes after 10 leaves the message hidden for 20 more. Here
// a minute is a fifth of a second: leases of 2 s outlive the pauses of a busy machine.
const minute = 200 * time.Millisecond

var (
	fixedQueue   = azq.Spec{Name: "fixed", Visibility: 30 * minute}
	renewedQueue = azq.Spec{Name: "renewed", Visibility: 10 * minute}
)

func fixedOrRenewed(s *Stage) {
	s.Prepare(fixedQueue, renewedQueue)
	lease, hidden := crashAndWait(s, fixedQueue)
	s.Claim(lease.Deadline().Equal(lease.Received.Add(fixedQueue.Visibility)), minutes(hidden))
	_, hidden = crashAndWait(s, renewedQueue)
	s.Claim(hidden <= renewedQueue.Visibility, minutes(hidden))
}

// crashAndWait lets a worker work for 10 minutes and crash, and claims how long the next
// one waits for its message. It returns the lease of the first, and how long it hid the
// message after the crash.
func crashAndWait(s *Stage, spec azq.Spec) (lease *azq.Lease, hidden time.Duration) {
	s.Desk("producer", spec).put("film", "film")
	second := s.Desk("worker 2", spec)
	lease = s.Desk("worker 1", spec).takeOne()
	for range 2 {
		must(sleep(s.ctx, 5*minute))
		if spec.Name == renewedQueue.Name {
			must(lease.Renew(s.ctx, nil))
		}
	}
	s.Next()
	crashed := time.Now()
	hidden = lease.Deadline().Sub(crashed)
	again := second.takeOne()
	waited := time.Since(crashed)
	second.delete(again)
	s.Claim(again.DequeueCount == 2 && waited >= hidden, minutes(waited))
	return lease, hidden
}

func minutes(d time.Duration) int { return int(math.Round(float64(d) / float64(minute))) }

var hastyQueue = azq.Spec{Name: "hasty", Visibility: time.Second}

// lateDeletes shows the paper's feedback (Q16d): deletes that come too late are
// counted, and past a threshold the visibility timeout is raised, for every role.
func lateDeletes(s *Stage) {
	s.Prepare(hastyQueue)
	slow, quick, web := s.Desk("slow worker", hastyQueue), s.Desk("other worker", hastyQueue), s.Desk("web role", hastyQueue)
	producer := s.Desk("producer", hastyQueue).quiet()
	producer.put("film", "film 1", "film 2", "film 3")
	held := slow.take(3)
	must(sleep(s.ctx, time.Until(held[0].Deadline())))
	s.Next()
	again := quick.take(len(held))
	s.Next()
	for _, lease := range held {
		err := lease.Complete(s.ctx)
		s.Claim(errors.Is(err, azq.ErrLeaseLost) && azstore.HasCode(err, queueerror.PopReceiptMismatch), id(lease))
	}
	const raised = 2 * time.Second
	must(slow.Tune(s.ctx))
	s.Claim(slow.Visibility() == raised, slow.Visibility())
	web.length()
	quick.length()
	s.Claim(web.Visibility() == raised && quick.Visibility() == raised)
	for _, lease := range again {
		quick.quiet().delete(lease)
	}
	producer.put("film", "film 4")
	next := quick.takeOne()
	s.Claim(next.Visibility == raised)
	quick.quiet().delete(next)
}
