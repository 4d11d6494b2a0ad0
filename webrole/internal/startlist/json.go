package startlist

import (
	"errors"
	"io"
	"iter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/cutroom/cutroom/shared/registrations"
)

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
	var given struct {
		Bib        jsontext.Value `json:"bib"`
		Name       jsontext.Value `json:"name"`
		Sex        jsontext.Value `json:"sex"`
		Age        jsontext.Value `json:"age"`
		FinishedAt jsontext.Value `json:"finishedAt"`
	}
	if json.Unmarshal(element, &given, json.RejectUnknownMembers(true)) != nil {
		return unreadable(line, "the object is not strict JSON, or has a member that a registration does not have")
	}
	f := fields{
		bib: digits(given.Bib), age: digits(given.Age),
		name: text(given.Name), sex: text(given.Sex), finishedAt: text(given.FinishedAt),
	}
	if given.FinishedAt != nil && f.finishedAt == "" {
		f.finishedAt = "not a text"
	}
	return f.row(line)
}

// digits is a JSON number as it is written; anything else is no number.
func digits(value jsontext.Value) string {
	if value.Kind() == '"' {
		return ""
	}
	return string(value)
}

// text is a JSON string; anything else is "".
func text(value jsontext.Value) (s string) {
	_ = json.Unmarshal(value, &s)
	return s
}
