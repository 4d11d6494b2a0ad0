package crash_test

import (
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/videostore"
)

// An operator deletes every queue while more than twenty videos are in work, in whatever stage each is:
// rows and blobs are all that has to be kept (docs/operate.md), so all of them end
// ready, and equal to undisturbed ones. It is the restore of a backup without queues.
func TestAllQueuesAreDeleted(t *testing.T) {
	t.Parallel()
	l := newLane(t, 6*time.Second)
	l.worker("first", oneEncoder)
	ids := append(l.uploadMany(small, engine.Normal, 1), l.uploadMany(tiny, engine.Normal, 24)...)
	l.encoding(1, func() videostore.View { return l.view(ids[0]) })
	ids = append(ids, l.mustUpload(tiny)) // its probe's message has just been sent
	begun, done := 0, 0
	for _, id := range ids {
		switch view := l.view(id); {
		case view.Subject.State == engine.Ready:
			done++
		case len(view.Runs) > 0:
			begun++
		}
	}
	for _, spec := range l.queues.Specs() {
		if err := l.queues.Queue(spec.Name).Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Now()
	t.Logf("all queues deleted: %d videos were ready, %d begun, %d waited", done, begun, len(ids)-done-begun)
	if open := len(ids) - done; open < 20 {
		t.Errorf("only %d videos were in work", open)
	}
	for _, id := range ids {
		l.ready(id)
	}
	t.Logf("all ready %.1f s later", time.Since(at).Seconds())
	at = time.Now()
	l.equalsUninterrupted(small, ids[0])
	for _, id := range ids[1:] {
		l.equalsUninterrupted(tiny, id)
	}
	t.Logf("all of them compared in %.1f s", time.Since(at).Seconds())
	// Who sends or receives makes a queue again; the rest a role makes when it starts.
	if err := l.queues.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.nothingLeft()
}
