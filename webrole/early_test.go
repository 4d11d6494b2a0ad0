package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/webrole/internal/api"
)

// TestWorkBeginsWhileItUploads: the first part and the last ones are asked for before the
// others, and when they have come the first step is promised.
func TestWorkBeginsWhileItUploads(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	content := movie(4*partBytes + 1234)
	v := s.create(map[string]any{"sizeBytes": len(content)})
	asks := func(up api.Upload, first int, want ...int) {
		t.Helper()
		var got []int
		for _, part := range up.Send {
			got = append(got, part.Number)
		}
		if diff := cmp.Diff(want, got); diff != "" || up.First != first {
			t.Errorf("to send, %d of them first (-want +got):\n%s", up.First, diff)
		}
	}
	up := s.begin(v.Id, nil)
	asks(up, 3, 0, 4, 3, 1, 2)
	s.putParts(up, content, 0, 2, 4)
	up = s.begin(v.Id, nil)
	asks(up, 1, 3, 1)
	if n := s.messages("probe"); n != 0 {
		t.Errorf("%d probe messages before they are there", n)
	}
	s.putParts(up, content, 3)
	for range 2 {
		asks(s.begin(v.Id, nil), 0, 1)
	}
	if n := s.messages("probe"); n != 1 {
		t.Errorf("%d probe messages, want 1", n)
	}
}
