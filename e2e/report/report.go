// Package report is how benchmarks and long runs say what they found: tables of figures,
// bounds that are met or not, and notes, as text and as Markdown.
package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Section is one thing that was measured.
type Section struct {
	Name, Title string
	Rows        [][]string // a table; the first row is the heading
	Bounds      []Bound
	Notes       []string
	Skipped     string // why nothing was measured; everything else is empty then
}

// Bound is one number that has a target.
type Bound struct {
	Name   string
	Value  float64
	Target float64
	AtMost bool   // the target is an upper limit; else a lower one
	Unit   string // " s" for the few targets that are no ratios
}

// Met reports whether the target is reached.
func (b Bound) Met() bool {
	if b.AtMost {
		return b.Value <= b.Target
	}
	return b.Value >= b.Target
}

func (b Bound) String() string {
	word, sign := "met", "≥"
	if !b.Met() {
		word = "MISSED"
	}
	if b.AtMost {
		sign = "≤"
	}
	return fmt.Sprintf("%s: %.2f%s (target %s %g%s, %s)", b.Name, b.Value, b.Unit, sign, b.Target, b.Unit, word)
}

// WriteText writes a section for a terminal.
func (s Section) WriteText(w io.Writer) {
	if s.Title != "" {
		_, _ = fmt.Fprintf(w, "\n%s: %s\n", s.Name, s.Title)
	}
	if s.Skipped != "" {
		_, _ = fmt.Fprintf(w, "  skipped: %s\n", s.Skipped)
		return
	}
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, row := range s.Rows {
		_, _ = fmt.Fprintf(table, "  %s\n", strings.Join(row, "\t"))
	}
	_ = table.Flush()
	for _, bound := range s.Bounds {
		_, _ = fmt.Fprintf(w, "  → %s\n", bound)
	}
	for _, note := range s.Notes {
		_, _ = fmt.Fprintf(w, "  (%s)\n", note)
	}
}

// Text is a section for a terminal.
func (s Section) Text() string {
	var b strings.Builder
	s.WriteText(&b)
	return b.String()
}

// Markdown is a section for a page.
func (s Section) Markdown() string {
	var b strings.Builder
	if s.Title != "" {
		fmt.Fprintf(&b, "## %s\n\n", s.Title)
	}
	for i, row := range s.Rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = strings.ReplaceAll(cell, "|", "/")
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "|%s\n", strings.Repeat(" --- |", len(row)))
		}
	}
	if len(s.Rows) > 0 {
		b.WriteString("\n")
	}
	for _, bound := range s.Bounds {
		fmt.Fprintf(&b, "- %s\n", bound)
	}
	for _, note := range s.Notes {
		fmt.Fprintf(&b, "- %s\n", note)
	}
	return b.String()
}
