package sourceparts

import (
	"fmt"
	"strings"
	"testing"
)

func TestVersionsMatchOnlyWhatWasRead(t *testing.T) {
	t.Parallel()
	m := Manifest{Layout: Layout{Bytes: 60, PartBytes: 10, Epoch: "first"}}
	for n := range m.Count() {
		m.Parts = append(m.Parts, Part{Number: n, Bytes: 10, ETag: fmt.Sprintf(`"%d"`, n)})
	}
	read := VersionsOf("first", map[int]string{0: `"0"`, 1: `"1"`, 2: `"2"`, 5: `"5"`})
	if !strings.HasPrefix(string(read), "0-2,5-5 ") || !read.Match(m) || !VersionsOf("first", nil).Match(m) {
		t.Errorf("%q does not match the manifest that it was read from", read)
	}
	other := m
	other.Epoch = "second"
	if read.Match(other) {
		t.Error("another upload matches")
	}
	m.Parts[3].ETag = `"new"` // was not read
	if !read.Match(m) {
		t.Error("a part that was not read matters")
	}
	m.Parts[5].ETag = `"new"`
	if read.Match(m) {
		t.Error("a part that was replaced matches")
	}
	for _, odd := range []Versions{"0-9 ab", "x-1 ab", "0", "-1-1 ab", " ab"} {
		if odd.Match(m) {
			t.Errorf("%q matches", odd)
		}
	}
	many := map[int]string{}
	for n := range MaxParts {
		many[n] = `"0x8DD0123456789AB"`
	}
	if length := len(VersionsOf("first", many)); length > 60 {
		t.Errorf("%d bytes for all parts", length)
	}
}
