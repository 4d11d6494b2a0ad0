package crash_test

import (
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/testkit/memorytest"
)

const (
	tooLittle = 64 << 20 // of memory, beside what the worker had before: not enough for an encoder
	enough    = 4 << 30
)

// A container's memory is used up: the kernel ends encoder after encoder and never the
// worker. That is trouble and no failure of the item, so the item goes back again and again, and
// with more memory the video becomes ready.
func TestEncodersWithoutMemory(t *testing.T) {
	t.Parallel()
	group, err := memorytest.NewGroup(t, enough)
	if err != nil {
		t.Logf("NOT SHOWN: no control group for memory can be made here: %v", err)
		return
	}
	l := newLane(t, 10*time.Second)
	worker := l.worker("narrow", oneEncoder)
	// The worker has its own memory before there is a bound. Else it may stand still,
	// because the kernel takes away its program again and again before it ends a process.
	l.ready(l.mustUpload(tiny))
	pid := l.Pid(worker)
	if err := group.Add(pid); err != nil {
		t.Fatal(err)
	}
	if err := group.Limit(tooLittle); err != nil {
		t.Fatal(err)
	}
	id := l.mustUpload(large)
	h := l.watch(id)
	l.await(3*time.Minute, "two encoders ended by the kernel", func() bool { n, _ := l.troubles("narrow"); return n >= 2 })
	if view := l.view(id); view.Subject.State != engine.Processing || view.Subject.Error != nil {
		t.Errorf("the video is %s with %v", view.Subject.State, view.Subject.Error)
	}
	if _, failed := l.troubles("narrow"); failed != 0 {
		t.Errorf("%d failures were recorded", failed)
	}
	if err := group.Limit(enough); err != nil {
		t.Fatal(err)
	}
	l.ready(id)
	if l.Pid(worker) != pid {
		t.Error("the worker ended")
	}
	l.equalsUninterrupted(large, id)
	for _, v := range h.end() {
		t.Error(v)
	}
	l.nothingLeft()
}
