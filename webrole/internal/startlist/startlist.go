// Package startlist reads the runners of a race from CSV or JSON, one row at a
// time, so that a list of any length needs the memory of one row. A row that
// cannot be read is a refused row and not the end of the list, wherever it is
// possible to go on.
//
// Next: webrole/internal/playback, what a player reads.
package startlist

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cutroom/cutroom/shared/registrations"
)

// maxRow bounds what is read ahead for one row, in bytes. A name has at most 200
// characters.
const maxRow = 16 << 10

// FormatError says that a list cannot be read from a line on. Detail is for
// people and repeats no input.
type FormatError struct {
	Line   int // as in registrations.Row
	Detail string
}

// Error implements error.
func (e *FormatError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Detail) }

// fields is a row as texts, of either format.
type fields struct {
	bib, name, sex, age string
	finishedAt          string // "" is none
}

// row reads the texts. Numbers that are none become such as no runner has, and
// are refused with all others.
func (f fields) row(line int) registrations.Row {
	r := registrations.Row{Line: line, Given: shown(f.bib), Registration: registrations.Registration{
		Bib: number(f.bib), Name: f.name, Sex: registrations.Sex(f.sex), Age: number(f.age),
	}}
	if f.finishedAt != "" {
		var err error
		if r.FinishedAt, err = time.Parse(time.RFC3339, f.finishedAt); err != nil {
			r.Refused = &registrations.Invalid{Code: registrations.InvalidFinish, Detail: "a finish is a time such as 2011-11-06T14:03:05-05:00"}
		}
	}
	return r
}

// number reads digits and nothing else; what is none is −1.
func number(text string) int {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return -1
	}
	return int(n)
}

// shown is a bib as it was given, if it is fit for a report.
func shown(text string) string {
	if utf8.RuneCountInString(text) > 20 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		return ""
	}
	return text
}

func unreadable(line int, detail string) registrations.Row {
	return registrations.Row{Line: line, Refused: &registrations.Invalid{Code: registrations.InvalidRow, Detail: detail}}
}
