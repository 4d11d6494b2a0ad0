package azq

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// Q5, and what an idle queue costs: lanes other than 0 are polled as often as lane 0 while
// any lane has messages, and seldom after a minute without any. A message wakes them.
func TestLanesSleep(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	synctest.Test(t, func(t *testing.T) {
		queues := Open(a, Options{Queues: []Spec{{Name: "work", Laned: true, MaxIdlePoll: time.Second}}})
		all := &lanes{}
		for lane := range DefaultLanes {
			all.pollers = append(all.pollers, &queuePoller{
				queue: queues.Queue(LaneName("work", lane)), lanes: all,
			})
		}
		first, second, third := all.pollers[0], all.pollers[1], all.pollers[2]
		expect := func(when string, lane0, others time.Duration, roused bool) {
			t.Helper()
			if d := first.longestIdle(); d != lane0 {
				t.Errorf("%s: lane 0 is polled every %v, want %v", when, d, lane0)
			}
			for _, l := range all.pollers[1:] {
				if d := l.longestIdle(); d != others {
					t.Errorf("%s: %s is polled every %v, want %v", when, l.queue.Name(), d, others)
				}
			}
			if woken := third.wait(t.Context(), time.Millisecond); woken != roused {
				t.Errorf("%s: lane 2 was woken: %v, want %v", when, woken, roused)
			}
			for _, l := range all.pollers {
				l.wait(t.Context(), time.Millisecond)
			}
		}
		expect("at the start", time.Second, AsleepPoll, false)
		first.found()
		expect("a message in lane 0", time.Second, time.Second, true)
		second.found()
		expect("another one in lane 1", time.Second, time.Second, false)
		time.Sleep(laneAwake - time.Second)
		first.found()
		time.Sleep(2 * time.Second)
		expect("nothing in other lanes than 0 for a minute", time.Second, time.Second, false)
		third.count(func(s *QueueStats) { s.Length = 1 })
		if d := third.longestIdle(); d != time.Second {
			t.Errorf("a lane with a hidden message is polled every %v, want 1 s", d)
		}
		third.count(func(s *QueueStats) { s.Length = 0 })
		time.Sleep(laneAwake)
		expect("nothing at all for a minute", time.Second, AsleepPoll, false)
		third.found()
		if !second.wait(t.Context(), time.Millisecond) {
			t.Error("a message in lane 2 did not wake lane 1")
		}
	})
}
