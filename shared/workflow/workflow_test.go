package workflow

import (
	"slices"
	"testing"

	"github.com/cutroom/cutroom/shared/engine"
)

// What a new video needs to be playable, and its last step, are in urgent queues. A
// clip of ten seconds, which has two portions of sound and three chunks, is in no bulk
// queue at all (Q5).
func TestUrgentQueuesCarryTheFirstParts(t *testing.T) {
	t.Parallel()
	plan := func(portions int) engine.Plan {
		return engine.Plan{Promises: []engine.Promise{{Step: StepAudio, Items: portions}}}
	}
	again := engine.Meta{Serving: 1}
	for _, c := range []struct {
		what  string
		queue string
		bulk  bool
	}{
		{"first chunk", chooseChunkQueue(engine.Meta{}, plan(3), 0), false},
		{"third chunk", chooseChunkQueue(engine.Meta{}, plan(3), 2), false},
		{"fourth chunk", chooseChunkQueue(engine.Meta{}, plan(3), 3), true},
		{"first chunk, made again", chooseChunkQueue(again, plan(3), 0), true},
		{"first chunk of a channel that sends much", chooseChunkQueue(engine.Meta{Bulk: true}, plan(3), 0), false},
		{"second chunk of a channel that sends much", chooseChunkQueue(engine.Meta{Bulk: true}, plan(3), 1), true},
		{"probe", urgentQueue(Probe)(engine.Meta{}, plan(3), 0), false},
		{"probe of a channel that sends much", urgentQueue(Probe)(engine.Meta{Bulk: true}, plan(3), 0), true},
		{"probe, made again", urgentQueue(Probe)(again, plan(3), 0), true},
		{"last step", urgentQueue(Finish)(engine.Meta{}, plan(3), 0), false},
		{"last step of a channel that sends much", urgentQueue(Finish)(engine.Meta{Bulk: true}, plan(3), 0), true},
		{"first portion", choosePortionQueue(engine.Meta{}, plan(3), 0), false},
		{"first portion of a channel that sends much", choosePortionQueue(engine.Meta{Bulk: true}, plan(3), 0), true},
		{"second portion of three", choosePortionQueue(engine.Meta{}, plan(3), 1), true},
		{"second portion of two", choosePortionQueue(engine.Meta{}, plan(2), 1), false},
		{"first portion, made again", choosePortionQueue(again, plan(2), 0), true},
	} {
		if got := Niceness[c.queue] == BulkNice; got != c.bulk {
			t.Errorf("%s travels on %s, which is bulk: %t, want %t", c.what, c.queue, got, c.bulk)
		}
	}
	awaited := []string{Probe, chooseChunkQueue(engine.Meta{}, plan(3), 0), choosePortionQueue(engine.Meta{}, plan(3), 0), Finish}
	for _, s := range Specs {
		if slices.Contains(awaited, s.Name) != s.Urgent {
			t.Errorf("queue %s is urgent: %t", s.Name, s.Urgent)
		}
	}
}
