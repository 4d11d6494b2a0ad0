package report

import (
	"strings"
	"testing"
)

// A section says the same as text and as Markdown, and which bound was missed.
func TestSection(t *testing.T) {
	t.Parallel()
	s := Section{
		Name: "busy", Title: "Who waits",
		Rows:   [][]string{{"newcomer", "idle | busy"}, {"clip", "1 s"}},
		Bounds: []Bound{{Name: "ratio", Value: 2, Target: 1, AtMost: true}, {Name: "speed", Value: 7, Target: 7, Unit: " s"}},
		Notes:  []string{"a note"},
	}
	for _, want := range []string{"busy: Who waits", "clip      1 s", "ratio: 2.00 (target ≤ 1, MISSED)", "speed: 7.00 s (target ≥ 7 s, met)", "(a note)"} {
		if !strings.Contains(s.Text(), want) {
			t.Errorf("no %q in the text:\n%s", want, s.Text())
		}
	}
	for _, want := range []string{"## Who waits", "| newcomer | idle / busy |\n| --- | --- |\n| clip | 1 s |\n", "- ratio: 2.00", "- a note"} {
		if !strings.Contains(s.Markdown(), want) {
			t.Errorf("no %q in the Markdown:\n%s", want, s.Markdown())
		}
	}
	if text := (Section{Skipped: "no root"}).Text(); !strings.Contains(text, "skipped: no root") {
		t.Errorf("a section that was skipped says %q", text)
	}
}
