package media

import (
	"encoding/json"
	"runtime"
	"testing"

	"github.com/cutroom/cutroom/shared/video"
)

// What the roles remember of the longest films that are taken is bounded (docs/security.md):
// 512 plans in each role, 64 views of what is committed in a web role.
func TestLongFilmsAreSmallInMemory(t *testing.T) { // alone: it reads the heap
	plan, err := Plan(source(3840, 2160, "30", "30", video.MaxDuration.Seconds()-1))
	if err != nil {
		t.Fatal(err)
	}
	stored, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	plans := remembered(t, 512, func() any {
		var p video.Plan
		if err := json.Unmarshal(stored, &p); err != nil {
			t.Fatal(err)
		}
		return p
	})
	segments := len(plan.SegmentsBefore(len(plan.Chunks)-1)) + 1
	views := remembered(t, 64, func() any {
		all := make([][]video.Segment, len(plan.Renditions)+1) // and the sound
		for i := range all {
			all[i] = make([]video.Segment, segments)
		}
		return all
	})
	t.Logf("%d chunks, %d segments: 512 plans %d MiB, 64 views %d MiB", len(plan.Chunks), segments, plans>>20, views>>20)
	if plans > 64<<20 || views > 96<<20 {
		t.Errorf("512 plans take %d MiB, want at most 64; 64 views %d, want at most 96", plans>>20, views>>20)
	}
}

// remembered is how many bytes count values take.
func remembered(t *testing.T, count int, one func() any) uint64 {
	t.Helper()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, all := heap(), make([]any, count)
	for i := range all {
		all[i] = one()
	}
	took := heap() - before
	runtime.KeepAlive(all)
	return took
}
