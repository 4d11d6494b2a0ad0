package startlist

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cutroom/cutroom/shared/charset"
	"github.com/cutroom/cutroom/shared/registrations"
)

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
	case slices.ContainsFunc(record, lost):
		return unreadable(number, "the line has characters that are lost, or not in the encoding of the list: save the list as UTF-8")
	case err != nil:
		return unreadable(number, "the line has a quote in the wrong place, or one that is not closed")
	case len(record) != len(columns):
		return unreadable(number, "the line has another number of values than the header")
	}
	value := func(name string) string {
		i, there := columns[name]
		if !there {
			return ""
		}
		return strings.TrimSpace(record[i])
	}
	return fields{
		bib: value("bib"), name: value("name"), sex: value("sex"), age: value("age"), finishedAt: value("finishedAt"),
	}.row(number)
}

func lost(value string) bool {
	return !utf8.ValidString(value) || strings.ContainsRune(value, utf8.RuneError)
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

// columnsOf returns the places of the columns that are known, and what is wrong.
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
