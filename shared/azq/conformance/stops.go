package conformance

import (
	"syscall"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/cutroom/cutroom/shared/azq"
)

// leaseScene has work that is longer than the visibility timeout, and another consumer.
func leaseScene(s *stage) {
	work := 2 * s.lease
	s.send(encode(slow("slow", int(work.Seconds()))))
	s.start()
	if !s.working() {
		s.breaks("lease", "the worker has not received the message")
		return
	}
	began := time.Now()
	stolen := false
	gone := s.until(func() bool {
		stolen = s.take() != nil
		return stolen || s.length() == 0
	})
	took := time.Since(began).Round(time.Second / 10)
	switch {
	case stolen && took < work:
		s.breaks("lease", "another consumer got the message after %v, and the work takes %v", took, work)
	case stolen || !gone:
		s.breaks("done", "work of %v was not done after %v", work, took)
	case took < work*8/10:
		s.breaks("done", "the message is gone after %v, and its work takes %v", took, work)
	}
	s.untouched("lease")
}

// staleScene freezes the worker until another consumer has its message.
func staleScene(s *stage) {
	s.send(encode(slow("frozen", 2)))
	s.start()
	if !s.working() {
		s.breaks("stale", "the worker has not received the message")
		return
	}
	s.signal(syscall.SIGSTOP)
	m := s.take()
	s.until(func() bool {
		if m == nil {
			m = s.take()
		}
		return m != nil
	})
	s.signal(syscall.SIGCONT)
	s.send(encode(slow("next", 0)))
	if m == nil || !s.until(func() bool { return s.length() == 1 }) {
		s.breaks("stale", "%d messages are in the queue, want the one that another consumer has", s.length())
		return
	}
	if _, err := s.queue.DeleteMessage(s.ctx, *m.MessageID, *m.PopReceipt, nil); err != nil {
		s.breaks("stale", "the message is not the other consumer's any more: %v", err)
	}
	s.untouched("stale")
}

// pausedScene pauses the queue of a running worker, which has to notice, and resumes it.
func pausedScene(s *stage) {
	pause := func(paused string) {
		metadata := &azqueue.SetMetadataOptions{Metadata: map[string]*string{"paused": &paused, "policy_epoch": new("1")}}
		_, err := s.queue.SetMetadata(s.ctx, metadata)
		s.failed(err)
	}
	s.start()
	pause("true")
	var last time.Time // when the latest message was sent
	idle := s.until(func() bool {
		if s.length() == 0 {
			s.send(encode(slow("paused", 0)))
			last = time.Now()
		}
		waiting := s.peek(s.queue)
		return time.Since(last) > 2*time.Second && len(waiting) == 1 && *waiting[0].DequeueCount == 0
	})
	if !idle {
		s.breaks("paused", "the worker receives messages although the queue is paused")
	}
	pause("false")
	if !s.until(func() bool { return s.length() == 0 }) {
		s.breaks("paused", "%d messages are left, and the queue was resumed", s.length())
	}
	s.untouched("paused")
}

// drainScene stops the worker while it works.
func drainScene(s *stage) {
	s.lease = longLease
	const data = `{"name":"Ada","seconds":600}`
	s.send(encode(greeting("long", data)))
	s.start()
	if !s.working() {
		s.breaks("drain", "the worker has not received the message")
		return
	}
	asked := time.Now()
	s.signal(syscall.SIGTERM)
	m := s.take()
	s.until(func() bool {
		if m == nil {
			m = s.take()
		}
		return m != nil || time.Since(asked) > longLease/2
	})
	if m == nil {
		s.breaks("drain", "the message is not visible %v after SIGTERM", time.Since(asked).Round(time.Second))
	} else if item, err := azq.DecodeItem(*m.MessageText); err != nil {
		s.breaks("drain", "the message cannot be read any more: %q: %v", *m.MessageText, err)
	} else {
		if item.Releases != 1 || item.Failures > 0 || item.Unexplained(*m.DequeueCount) > 0 {
			s.breaks("drain", "it was given back with %d releases, %d failures", item.Releases, item.Failures)
		}
		s.same("keeps", item, data)
	}
	if program := s.program; !s.ends() {
		s.breaks("drain", "the program did not end")
	} else if !program.cmd.ProcessState.Success() {
		s.breaks("drain", "the program ended with %v: %s", program.cmd.ProcessState, program.tail())
	}
	s.untouched("drain")
}

// killedScene kills two workers while they work. The third has to do the work, all of it.
func killedScene(s *stage) {
	work := 3 * time.Second
	s.send(encode(slow("orphan", int(work.Seconds()))))
	for range 2 {
		s.start()
		if !s.working() {
			s.breaks("killed", "the worker has not received the message")
			return
		}
		s.kill()
		if !s.until(func() bool { return len(s.peek(s.queue)) > 0 || s.length() == 0 }) || s.length() == 0 {
			s.breaks("killed", "%d messages are in the queue, and none is visible after the worker was killed", s.length())
			return
		}
	}
	began := time.Now()
	s.start()
	gone := s.until(func() bool { return s.length() == 0 })
	if took := time.Since(began); !gone || took < work*8/10 {
		s.breaks("killed", "%d messages are left after %v, and the work takes %v",
			s.length(), took.Round(time.Second/10), work)
	}
	s.untouched("killed")
}
