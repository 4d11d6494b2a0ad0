// Package startlist reads the runners of a race from CSV or JSON, one row at a
// time, so that a list of any length needs the memory of one row. A row that
// cannot be read is a refused row and not the end of the list, wherever it is
// possible to go on.
//
// Next: webrole/internal/playback, what a player reads.
package startlist

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/cutroom/cutroom/shared/charset"
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

// rowOf reads a row of either format from its texts, by member. Numbers that are none become
// such as no runner has, and are refused with all others. Without finishedAt there is no finish.
func rowOf(line int, given map[string]string) registrations.Row {
	r := registrations.Row{Line: line, Given: shown(given["bib"]), Registration: registrations.Registration{
		Bib: number(given["bib"]), Name: given["name"], Sex: registrations.Sex(given["sex"]), Age: number(given["age"]),
	}}
	if given["finishedAt"] != "" {
		var err error
		if r.FinishedAt, err = time.Parse(time.RFC3339, given["finishedAt"]); err != nil {
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

// CSV reads values separated by commas (RFC 4180), semicolons or tabs, as the first
// line has them, which names the columns bib, name, sex, age and, if there are finishes,
// finishedAt, in any case and order. Blank lines are skipped. A value never spans
// lines, since no name holds a line break: so a mistake costs its own line only. Its
// errors are *FormatError, and those of r.
func CSV(r *charset.Reader) iter.Seq2[registrations.Row, error] {
	return func(yield func(registrations.Row, error) bool) {
		lines := bufio.NewReaderSize(r, maxRow)
		var columns map[string]int
		var separator rune
		for number := 1; ; number++ {
			line, tooLong, err := nextLine(lines)
			if err != nil {
				if columns == nil && errors.Is(err, io.EOF) {
					err = &FormatError{Line: number, Detail: wantHeader + "; the list is empty"}
				}
				if !errors.Is(err, io.EOF) {
					yield(registrations.Row{}, err)
				}
				return
			}
			if strings.Trim(line, "\r\n\t ,;") == "" && !tooLong { // as Excel writes empty rows
				continue
			}
			if columns == nil {
				var detail string
				if columns, separator, detail = header(line); columns == nil {
					yield(registrations.Row{}, &FormatError{Line: number, Detail: wantHeader + "; " + detail})
					return
				}
				continue
			}
			record, err := values(line, separator)
			if !yield(csvRow(number, columns, record, err, tooLong), nil) {
				return
			}
		}
	}
}

func csvRow(number int, columns map[string]int, record []string, err error, tooLong bool) registrations.Row {
	switch {
	case tooLong:
		return unreadable(number, "the line is too long")
	case strings.ContainsRune(strings.Join(record, ","), utf8.RuneError): // also for what is no UTF-8
		return unreadable(number, "the line has characters that are lost, or not in the encoding of the list: save the list as UTF-8")
	case err != nil:
		return unreadable(number, "the line has a quote in the wrong place, or one that is not closed")
	case len(record) != len(columns):
		return unreadable(number, "the line has another number of values than the header")
	}
	given := map[string]string{}
	for name, i := range columns {
		given[name] = strings.TrimSpace(record[i])
	}
	return rowOf(number, given)
}

const wantHeader = "the first line must name the columns bib, name, sex and age and, if there are finishes, finishedAt, separated by commas, semicolons or tabs"

// header finds the separator of a line, which is the commonest of three, and the places
// of the columns that it names, or says what is wrong with it.
func header(line string) (columns map[string]int, separator rune, wrong string) {
	if line == "" { // see nextLine
		return nil, 0, "it is too long"
	}
	for _, s := range ",;\t" {
		if separator == 0 || strings.Count(line, string(s)) > strings.Count(line, string(separator)) {
			separator = s
		}
	}
	record, err := values(line, separator)
	if err != nil {
		return nil, 0, "it has a quote in the wrong place, or one that is not closed"
	}
	columns, mistakes := columnsOf(record)
	switch {
	case len(columns) == 0:
		return nil, 0, "it names none of them"
	case len(mistakes) > 0:
		return nil, 0, strings.Join(mistakes, ", ")
	}
	return columns, separator, ""
}

var members = []string{"bib", "name", "sex", "age", "finishedAt"}

func columnsOf(record []string) (columns map[string]int, mistakes []string) {
	columns = map[string]int{}
	for i, given := range record {
		known := slices.IndexFunc(members, func(name string) bool { return strings.EqualFold(name, strings.TrimSpace(given)) })
		if known < 0 {
			mistakes = append(mistakes, fmt.Sprintf("column %d is none of these", i+1))
			continue
		}
		if _, twice := columns[members[known]]; twice {
			mistakes = append(mistakes, members[known]+" is there twice")
		}
		columns[members[known]] = i
	}
	for _, name := range members[:4] {
		if _, there := columns[name]; !there {
			mistakes = append(mistakes, name+" is missing")
		}
	}
	return columns, mistakes
}

// values splits a line. One by one, so that an open quote ends with its line.
func values(line string, separator rune) ([]string, error) {
	r := csv.NewReader(strings.NewReader(line))
	r.Comma = separator
	return r.Read()
}

// nextLine returns a line with its end. One that is too long is skipped and empty.
func nextLine(r *bufio.Reader) (line string, tooLong bool, err error) {
	text, err := r.ReadSlice('\n')
	line = string(text)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, tooLong = "", true
		_, err = r.ReadSlice('\n')
	}
	if errors.Is(err, io.EOF) && (line != "" || tooLong) {
		err = nil
	}
	return line, tooLong, err
}

// JSON reads an array of objects with the members bib, name, sex, age and
// finishedAt. Lines are places in the array, from 1. Its errors are
// *FormatError, and those of r.
func JSON(r io.Reader) iter.Seq2[registrations.Row, error] {
	return func(yield func(registrations.Row, error) bool) {
		in := &io.LimitedReader{R: r, N: maxRow} // bounds what one element may take
		// What is wrong in an element, object finds.
		dec := jsontext.NewDecoder(in, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		line := 1
		fail := func(detail string, err error) {
			mistake, is := errors.AsType[*jsontext.SyntacticError](err)
			switch {
			case in.N <= 0:
				err = &FormatError{Line: line, Detail: "an element is too long"}
			case err == nil, errors.Is(err, io.EOF), is && errors.Unwrap(mistake.Err) == nil: // else it wraps one of r
				err = &FormatError{Line: line, Detail: detail}
			}
			yield(registrations.Row{}, err)
		}
		if open, err := dec.ReadToken(); err != nil || open.Kind() != '[' {
			fail("the body is not a JSON array", err)
			return
		}
		for ; dec.PeekKind() != ']'; line++ {
			element, err := dec.ReadValue()
			if err != nil {
				fail("the JSON array breaks off or has a mistake", err)
				return
			}
			if !yield(object(line, element), nil) {
				return
			}
			in.N = maxRow
		}
		_, _ = dec.ReadToken() // ]
		if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
			fail("something follows the JSON array", err)
		}
	}
}

// object reads one element, as strictly as every other body of the API.
func object(line int, element jsontext.Value) registrations.Row {
	if element.Kind() != '{' {
		return unreadable(line, "the element is no object")
	}
	var found struct {
		Bib        jsontext.Value `json:"bib"`
		Name       jsontext.Value `json:"name"`
		Sex        jsontext.Value `json:"sex"`
		Age        jsontext.Value `json:"age"`
		FinishedAt jsontext.Value `json:"finishedAt"`
	}
	if json.Unmarshal(element, &found, json.RejectUnknownMembers(true)) != nil {
		return unreadable(line, "the object is not strict JSON, or has a member that a registration does not have")
	}
	given := map[string]string{
		"bib": string(found.Bib), "age": string(found.Age), // in quotes it is no number
		"name": text(found.Name), "sex": text(found.Sex), "finishedAt": text(found.FinishedAt),
	}
	if found.FinishedAt != nil && given["finishedAt"] == "" {
		given["finishedAt"] = "not a text"
	}
	return rowOf(line, given)
}

// text is a JSON string; anything else is "".
func text(value jsontext.Value) (s string) {
	_ = json.Unmarshal(value, &s)
	return s
}
