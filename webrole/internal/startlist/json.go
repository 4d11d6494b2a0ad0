package startlist

import (
	"encoding/json"
	"errors"
	"io"
	"iter"
	"slices"

	strict "github.com/go-json-experiment/json"

	"github.com/cutroom/cutroom/shared/registrations"
)

// JSON reads an array of objects with the members bib, name, sex, age and
// finishedAt. Lines are places in the array, from 1. Its errors are
// *FormatError, and those of r.
func JSON(r io.Reader) iter.Seq2[registrations.Row, error] {
	return func(yield func(registrations.Row, error) bool) {
		in := &source{r: r, left: maxRow}
		dec := json.NewDecoder(in)
		line := 1
		fail := func(detail string, cause error) {
			if in.err != nil {
				yield(registrations.Row{}, in.err)
				return
			}
			if errors.Is(cause, errRowTooLong) {
				detail = "an element is too long"
			}
			yield(registrations.Row{}, &FormatError{Line: line, Detail: detail, Cause: cause})
		}
		if open, err := dec.Token(); err != nil || open != json.Delim('[') {
			fail("the body is not a JSON array", err)
			return
		}
		for ; dec.More(); line++ {
			in.left = maxRow
			var element json.RawMessage
			if err := dec.Decode(&element); err != nil {
				fail("the JSON array breaks off or has a mistake", err)
				return
			}
			if !yield(object(line, element), nil) {
				return
			}
		}
		if _, err := dec.Token(); err != nil {
			fail("the JSON array is not closed", err)
			return
		}
		if _, err := dec.Token(); !errors.Is(err, io.EOF) {
			fail("something follows the JSON array", err)
		}
	}
}

var members = []string{"bib", "name", "sex", "age", "finishedAt"}

// object reads one element, as strictly as every other body of the API.
func object(line int, element json.RawMessage) registrations.Row {
	var given map[string]json.RawMessage
	if err := strict.Unmarshal(element, &given); err != nil || given == nil {
		return unreadable(line, "the element is no object, or not strict JSON")
	}
	for name := range given {
		if !slices.Contains(members, name) {
			return unreadable(line, "the object has a member that a registration does not have")
		}
	}
	f := fields{
		bib: digits(given["bib"]), age: digits(given["age"]),
		name: text(given["name"]), sex: text(given["sex"]), finishedAt: text(given["finishedAt"]),
	}
	if _, there := given["finishedAt"]; there && f.finishedAt == "" {
		f.finishedAt = "not a text"
	}
	return f.row(line)
}

// digits is a JSON number as it is written; anything else is no number.
func digits(value json.RawMessage) string {
	if len(value) == 0 || value[0] == '"' {
		return ""
	}
	return string(value)
}

// text is a JSON string; anything else is "".
func text(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) != nil {
		return ""
	}
	return s
}
