package enginetest_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
)

// points are all in the order of writes: of each step with rows four, and those of the others.
func points() (points []string) {
	for _, step := range enginetest.Sums().Steps {
		for _, place := range []string{"claimed", "output", "committed", "enqueued"} {
			if step.HasRows() {
				points = append(points, step.Name+"/"+place)
			}
		}
	}
	points = append(points, enginetest.List+"/read", enginetest.List+"/written")
	for _, place := range []string{"rows", "unlisted", "blobs", "gone"} {
		points = append(points, enginetest.Erase+"/"+place)
	}
	return points
}

// numbers make three runs of add and two of square, behind the gate.
var numbers = []int{1, 2, 3, 4, 5}

// disturbed is a sum whose worker waits at a point, and what is waited for then.
func (b *bench) disturbed(point string) (victim *process, id engine.ID, finished func()) {
	b.Helper()
	victim = b.start(func(o *order) { o.Name, o.Point = "victim", point })
	id = b.upload(numbers...)
	finished = func() { b.ready(id) }
	switch step, _, _ := strings.Cut(point, "/"); step {
	case enginetest.Average:
		b.ready(id)
		key := b.average(id, 3)
		finished = func() { b.averaged(key) }
	case enginetest.Erase:
		b.ready(id)
		_, err := b.store.Delete(b.Context(), id, "")
		b.must(err)
		finished = func() { b.erased(id) }
	}
	b.await(victim)
	return victim, id, finished
}

// afterwards checks what is left, erases it, and checks again.
func (b *bench) afterwards(id engine.ID) {
	b.Helper()
	b.atRest()
	if _, err := b.store.Get(b.Context(), id); err == nil {
		b.gone(id)
	}
}

func atEveryPoint(t *testing.T, visibility time.Duration, test func(b *bench, point string)) {
	azuritetest.Slow(t, "kills many workers")
	t.Parallel()
	for _, point := range points() {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			test(newBench(t, visibility), point)
		})
	}
}

// A worker is killed at every boundary in the order of writes. Another one finishes.
func TestKilledAtEveryBoundary(t *testing.T) {
	atEveryPoint(t, 2*time.Second, func(b *bench, point string) {
		victim, id, finished := b.disturbed(point)
		b.must(victim.Process.Kill())
		_ = victim.end()
		second := b.start(func(o *order) { o.Name = "second" })
		finished()
		b.afterwards(id)
		b.drain(second)
	})
}

// A worker is told to stop at every boundary: it gives back what it has, and ends.
func TestStoppedAtEveryBoundary(t *testing.T) {
	atEveryPoint(t, 30*time.Second, func(b *bench, point string) { // no lease has to end
		victim, id, finished := b.disturbed(point)
		b.must(victim.Process.Signal(syscall.SIGTERM))
		victim.goOn()
		b.must(victim.end())
		second := b.start(func(o *order) { o.Name = "second" })
		finished()
		b.afterwards(id)
		b.drain(second)
	})
}

// A worker is frozen at every boundary past its lease, and wakes when another one has finished.
// It changes nothing, and goes on as a good worker.
func TestZombieChangesNothing(t *testing.T) {
	atEveryPoint(t, 2*time.Second, func(b *bench, point string) {
		zombie, id, finished := b.disturbed(point)
		b.must(zombie.Process.Signal(syscall.SIGSTOP))
		second := b.start(func(o *order) { o.Name = "second" })
		finished()
		b.atRest()
		b.drain(second)
		truth := b.truth()

		zombie.goOn() // it does so when it wakes, before it knows how late it is
		b.must(zombie.Process.Signal(syscall.SIGCONT))
		next := b.upload(2, 2, 2) // for the zombie alone
		b.ready(next)
		b.atRest()
		after := b.truth()
		for key := range after {
			if strings.HasPrefix(key, string(next)) {
				delete(after, key)
			}
		}
		if diff := cmp.Diff(truth, after); diff != "" {
			b.Errorf("the zombie changed rows (-before +after):\n%s", diff)
		}
		b.afterwards(id)
		b.drain(zombie)
	})
}
