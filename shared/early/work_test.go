package early

import (
	"fmt"
	"testing"

	"github.com/cutroom/cutroom/shared/sourceparts"
)

func TestVersionsMatchOnlyWhatWasRead(t *testing.T) {
	t.Parallel()
	m := sourceparts.Manifest{Layout: sourceparts.Layout{Bytes: 60, PartBytes: 10, Epoch: "first"}}
	for n := range m.Count() {
		m.Parts = append(m.Parts, sourceparts.Part{Number: n, Bytes: 10, ETag: fmt.Sprintf(`"%d"`, n)})
	}
	read := versionsOf("first", map[int]string{0: `"0"`, 1: `"1"`, 2: `"2"`, 5: `"5"`})
	if !matches(read, m) {
		t.Errorf("%q does not match the manifest that it was read from", read)
	}
	if nothing := versionsOf("first", nil); nothing != "" {
		t.Errorf("nothing was read: %q", nothing)
	}
	other := m
	other.Epoch = "second"
	if matches(read, other) {
		t.Error("another upload matches")
	}
	m.Parts[3].ETag = `"new"` // was not read
	if !matches(read, m) {
		t.Error("a part that was not read matters")
	}
	m.Parts[5].ETag = `"new"`
	if matches(read, m) {
		t.Error("a part that was replaced matches")
	}
	beyond := versionsOf("first", map[int]string{6: `"6"`})
	for _, odd := range []string{beyond, "0 ab", "-1 ab", "0", " ab", "? ab"} {
		if matches(odd, m) {
			t.Errorf("%q matches", odd)
		}
	}
	many := map[int]string{}
	for n := range sourceparts.MaxParts {
		many[n] = `"0x8DD0123456789AB"`
	}
	if length := len(versionsOf("first", many)); length > 1000 {
		t.Errorf("%d bytes for all parts", length)
	}
}
