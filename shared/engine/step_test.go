package engine

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azq"
)

// What is derived from a key is stored: it never changes.
func TestKeysAreStable(t *testing.T) {
	t.Parallel()
	id := ID(strings.Repeat("a", 26))
	chunk := Key{ID: id, Generation: 2, Step: "encode", Index: 3}
	clip := Key{ID: id, Generation: 1, Step: "clip", Index: 310, Length: 250}
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
	declared := Declaration{Steps: []Step{{Name: "encode", Stage: Part}, {Name: "clip", Stage: OnRequest}}}
	for _, k := range []Key{chunk, clip} {
		item, err := azq.NewItem(k.Step, string(k.ID), k.ItemID(), k.Payload())
		if err != nil {
			t.Fatal(err)
		}
		if back, err := KeyOf(item); err != nil || back != k {
			t.Errorf("KeyOf(%s) = %v, %v", item.Data, back, err)
		}
		if back, err := declared.ParseItemID(k.ItemID()); err != nil || back != k {
			t.Errorf("ParseItemID(%q) = %v, %v", k.ItemID(), back, err)
		}
		if back, err := ParseRowKey(id, k.RowKey()); err != nil || back != k {
			t.Errorf("ParseRowKey(%q) = %v, %v", k.RowKey(), back, err)
		}
	}
	for _, bad := range []string{"META", "PLAN:00001", "STEP:00001:encode:x", "ZOO:1:2:3", "CLIP:1:2:3"} {
		if k, err := ParseRowKey(id, bad); err == nil {
			t.Errorf("ParseRowKey(%q) = %v", bad, k)
		}
	}
	if _, err := ParseRowKey(id, "META"); !errors.Is(err, ErrNotAKey) {
		t.Errorf("ParseRowKey(META): %v", err)
	}
}

// Every state of a subject, and who still wants what.
func TestWanted(t *testing.T) {
	t.Parallel()
	want := map[Stage][]string{
		First: {"new"}, Part: {"new"}, Last: {"new"},
		AfterReady: {"new", "ready", "again", "broken again"}, // "new": by a plan that promised it as a part
		OnRequest:  {"new", "ready", "again", "broken again", "failed"},
	}
	subjects := map[string]Meta{
		"new":          {State: Processing, Generation: 1},
		"ready":        {State: Ready, Generation: 1, Serving: 1},
		"again":        {State: Processing, Generation: 2, Serving: 1},
		"broken again": {State: Failed, Generation: 2, Serving: 1},
		"failed":       {State: Failed, Generation: 1},
		"deleting":     {State: Deleting, Generation: 1, Serving: 1},
	}
	for stage, wanted := range want {
		for _, name := range slices.Sorted(maps.Keys(subjects)) {
			if got := (Step{Stage: stage}).Wanted(subjects[name], 1); got != slices.Contains(wanted, name) {
				t.Errorf("stage %d, %s: wanted = %t", stage, name, got)
			}
		}
	}
}
