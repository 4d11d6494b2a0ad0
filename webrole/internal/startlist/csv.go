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
			values := csv.NewReader(strings.NewReader(line)) // of one line: an open quote ends with it
			values.Comma = separator
			record, err := values.Read()
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

// header finds the separator with which a line names the columns, and their places, or
// says what is wrong with it.
func header(line string) (columns map[string]int, separator rune, wrong string) {
	if line == "" { // see nextLine
		return nil, 0, "it is too long"
	}
	wrong = "it has a quote in the wrong place, or one that is not closed"
	most := -1
	for _, separator := range ",;\t" {
		values := csv.NewReader(strings.NewReader(line))
		values.Comma = separator
		record, err := values.Read()
		if err != nil {
			continue
		}
		columns, mistakes := columnsOf(record)
		if len(mistakes) == 0 {
			return columns, separator, ""
		}
		if len(columns) > most {
			most, wrong = len(columns), strings.Join(mistakes, ", ")
		}
	}
	if most == 0 {
		wrong = "it names none of them"
	}
	return nil, 0, wrong
}

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

// nextLine returns a line with its end. One that is too long is skipped and empty.
func nextLine(r *bufio.Reader) (line string, tooLong bool, err error) {
	text, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = r.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return "", false, err
		}
		return "", true, nil
	}
	if err != nil && (len(text) == 0 || !errors.Is(err, io.EOF)) {
		return "", false, err
	}
	return string(text), false, nil
}
