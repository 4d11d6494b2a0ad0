package startlist

import (
	"bufio"
	"encoding/csv"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/cutroom/cutroom/shared/registrations"
)

// CSV reads comma-separated values (RFC 4180) whose first line names the columns
// bib, name, sex, age and, if there are finishes, finishedAt, in any order. A
// byte order mark and blank lines are skipped. A value never spans lines, since
// no name holds a line break: so a mistake costs its own line only. Its errors
// are *FormatError, and those of r.
func CSV(r io.Reader) iter.Seq2[registrations.Row, error] {
	return func(yield func(registrations.Row, error) bool) {
		lines := bufio.NewReaderSize(r, maxRow)
		var one oneLine
		values := csv.NewReader(&one)
		values.FieldsPerRecord = -1 // checked here, by line
		values.ReuseRecord = true
		var columns map[string]int
		for number := 1; ; number++ {
			line, tooLong, err := nextLine(lines)
			if err != nil {
				if columns == nil && errors.Is(err, io.EOF) {
					err = &FormatError{Line: number, Detail: wantHeader}
				}
				if !errors.Is(err, io.EOF) {
					yield(registrations.Row{}, err)
				}
				return
			}
			if number == 1 {
				line = strings.TrimPrefix(line, "\uFEFF")
			}
			one.rest = line
			record, err := values.Read()
			switch {
			case errors.Is(err, io.EOF) && !tooLong: // a blank line
				continue
			case columns == nil:
				if columns = header(record); columns == nil || err != nil || tooLong {
					yield(registrations.Row{}, &FormatError{Line: number, Detail: wantHeader, Cause: err})
					return
				}
				continue
			}
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
		return strings.Clone(strings.TrimSpace(record[i])) // the reader reuses its record
	}
	return fields{
		bib: value("bib"), name: value("name"), sex: value("sex"), age: value("age"), finishedAt: value("finishedAt"),
	}.row(number)
}

const wantHeader = "the first line must name the columns bib,name,sex,age and, if there are finishes, finishedAt"

// header returns the place of every column, or nil.
func header(record []string) map[string]int {
	columns := map[string]int{}
	for i, name := range record {
		name = strings.TrimSpace(name)
		if _, twice := columns[name]; twice || !slices.Contains(members, name) {
			return nil
		}
		columns[name] = i
	}
	for _, name := range members[:4] {
		if _, there := columns[name]; !there {
			return nil
		}
	}
	return columns
}

// nextLine returns a line with its end. One that is too long is skipped.
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

// oneLine is a file of one line: the reader of CSV finds its end after each
// line, so that a quote that is not closed does not swallow the rest.
type oneLine struct{ rest string }

func (o *oneLine) Read(p []byte) (int, error) {
	if o.rest == "" {
		return 0, io.EOF
	}
	n := copy(p, o.rest)
	o.rest = o.rest[n:]
	return n, nil
}
