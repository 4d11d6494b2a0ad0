package workflow

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/video"
)

// What is derived from a key is stored: it never changes.
func TestKeysAreStable(t *testing.T) {
	t.Parallel()
	id := video.ID(strings.Repeat("a", 26))
	chunk := Key{ID: id, Generation: 2, Step: StepEncode, Index: 3}
	clip := Key{ID: id, Generation: 1, Step: StepClip, Index: 310, Frames: 250}
	v := string(id)
	got := map[string]string{
		"chunk row": chunk.RowKey(), "chunk item": chunk.ItemID(), "chunk blobs": chunk.BlobPrefix("try"),
		"clip row": clip.RowKey(), "clip item": clip.ItemID(), "clip blobs": clip.BlobPrefix("try"), "clip name": clip.Name(),
	}
	want := map[string]string{
		"chunk row": "STEP:00002:encode:00003", "chunk item": v + ".STEP:00002:encode:00003", "chunk blobs": v + "/g00002/encode/00003/try/",
		"clip row": "CLIP:00001:000000310:000250", "clip item": v + ".CLIP:00001:000000310:000250", "clip blobs": v + "/g00001/clip/00310/try/", "clip name": "g1-310-250",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, k := range []Key{chunk, clip} {
		item, err := azq.NewItem(k.Step, string(k.ID), k.ItemID(), k.Payload())
		if err != nil {
			t.Fatal(err)
		}
		if back, err := KeyOf(item); err != nil || back != k {
			t.Errorf("KeyOf(%s) = %v, %v", item.Data, back, err)
		}
		if back, err := ParseItemID(k.ItemID()); err != nil || back != k {
			t.Errorf("ParseItemID(%q) = %v, %v", k.ItemID(), back, err)
		}
		if back, err := ParseRowKey(id, k.RowKey()); err != nil || back != k {
			t.Errorf("ParseRowKey(%q) = %v, %v", k.RowKey(), back, err)
		}
	}
	for _, bad := range []string{"META", "PLAN:00001", "STEP:00001:encode:x", "ZOO:1:2:3"} {
		if k, err := ParseRowKey(id, bad); err == nil {
			t.Errorf("ParseRowKey(%q) = %v", bad, k)
		}
	}
	if _, err := ParseRowKey(id, "META"); !errors.Is(err, ErrNotAKey) {
		t.Errorf("ParseRowKey(META): %v", err)
	}
}

// Every state of a video, and who still wants what.
func TestWanted(t *testing.T) {
	t.Parallel()
	want := map[Stage][]string{
		First: {"new"}, Part: {"new"}, Last: {"new"},
		AfterReady: {"new", "ready", "again", "broken again"}, // "new": by a plan that promised it as a part
		OnRequest:  {"new", "ready", "again", "broken again", "failed"},
	}
	videos := map[string]video.Video{
		"new":          {State: video.Processing, Generation: 1},
		"ready":        {State: video.Ready, Generation: 1, Serving: 1},
		"again":        {State: video.Processing, Generation: 2, Serving: 1},
		"broken again": {State: video.Failed, Generation: 2, Serving: 1},
		"failed":       {State: video.Failed, Generation: 1},
		"deleting":     {State: video.Deleting, Generation: 1, Serving: 1},
	}
	for stage, wanted := range want {
		for _, name := range slices.Sorted(maps.Keys(videos)) {
			if got := (Step{Stage: stage}).Wanted(videos[name], 1); got != slices.Contains(wanted, name) {
				t.Errorf("stage %d, %s: wanted = %t", stage, name, got)
			}
		}
	}
}

// What a new video needs to be playable, and its last step, are in urgent queues. A
// clip of ten seconds, which has two portions of sound and three chunks, is in no bulk
// queue at all (Q5).
func TestUrgentQueuesCarryTheFirstParts(t *testing.T) {
	t.Parallel()
	plan := func(portions int) video.Plan { return video.Plan{Sound: make([]video.SoundPortion, portions)} }
	again := video.Video{Serving: 1}
	for _, c := range []struct {
		what  string
		queue string
		bulk  bool
	}{
		{"first chunk", chooseChunkQueue(video.Video{}, plan(3), 0), false},
		{"third chunk", chooseChunkQueue(video.Video{}, plan(3), 2), false},
		{"fourth chunk", chooseChunkQueue(video.Video{}, plan(3), 3), true},
		{"first chunk, made again", chooseChunkQueue(again, plan(3), 0), true},
		{"first chunk of a channel that sends much", chooseChunkQueue(video.Video{Bulk: true}, plan(3), 0), false},
		{"second chunk of a channel that sends much", chooseChunkQueue(video.Video{Bulk: true}, plan(3), 1), true},
		{"probe", urgentQueue(Probe)(video.Video{}, plan(3), 0), false},
		{"probe of a channel that sends much", urgentQueue(Probe)(video.Video{Bulk: true}, plan(3), 0), true},
		{"probe, made again", urgentQueue(Probe)(again, plan(3), 0), true},
		{"last step", urgentQueue(Finish)(video.Video{}, plan(3), 0), false},
		{"last step of a channel that sends much", urgentQueue(Finish)(video.Video{Bulk: true}, plan(3), 0), true},
		{"first portion", choosePortionQueue(video.Video{}, plan(3), 0), false},
		{"first portion of a channel that sends much", choosePortionQueue(video.Video{Bulk: true}, plan(3), 0), true},
		{"second portion of three", choosePortionQueue(video.Video{}, plan(3), 1), true},
		{"second portion of two", choosePortionQueue(video.Video{}, plan(2), 1), false},
		{"first portion, made again", choosePortionQueue(again, plan(2), 0), true},
	} {
		if got := Niceness[c.queue] == BulkNice; got != c.bulk {
			t.Errorf("%s travels on %s, which is bulk: %t, want %t", c.what, c.queue, got, c.bulk)
		}
	}
	awaited := []string{Probe, chooseChunkQueue(video.Video{}, plan(3), 0), choosePortionQueue(video.Video{}, plan(3), 0), Finish}
	for _, s := range Specs {
		if slices.Contains(awaited, s.Name) != s.Urgent {
			t.Errorf("queue %s is urgent: %t", s.Name, s.Urgent)
		}
	}
}
