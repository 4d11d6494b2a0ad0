// Package strictjson reads JSON the way two readers cannot disagree about it:
// one value, valid UTF-8, no duplicate keys, no lone surrogates, no NUL, bounded
// depth. encoding/json accepts all of these quietly, and then what was checked
// is not what another program reads.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth bounds how deep objects and arrays may nest.
const MaxDepth = 16

// ErrInvalid wraps every refusal.
var ErrInvalid = errors.New("not strict JSON")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// Check returns an error that matches ErrInvalid when data is not exactly one
// strict JSON value.
func Check(data []byte) error {
	if !utf8.Valid(data) {
		return invalid("text is not UTF-8")
	}
	if err := scan(data); err != nil {
		return err
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return invalid("body is empty")
	}
	if !json.Valid(data) {
		return invalid("syntax error, or more than one value")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return noDuplicates(dec)
}

// scan looks at depth and at escapes inside strings, before anything recursive
// reads the data.
func scan(data []byte) error {
	depth, inString := 0, false
	for i := 0; i < len(data); i++ {
		c := data[i]
		switch {
		case !inString && (c == '{' || c == '['):
			if depth++; depth > MaxDepth {
				return invalid("nested deeper than %d", MaxDepth)
			}
		case !inString && (c == '}' || c == ']'):
			depth--
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			width, err := escape(data[i:])
			if err != nil {
				return err
			}
			i += width - 1
		}
	}
	return nil
}

// escape checks one escape sequence and returns how many bytes it takes.
func escape(data []byte) (int, error) {
	unit, ok := unicodeEscape(data)
	if !ok {
		return min(2, len(data)), nil // json.Valid judges the others
	}
	switch {
	case unit == 0:
		return 0, invalid("NUL in a string")
	case !utf16.IsSurrogate(unit):
		return 6, nil
	}
	low, ok := unicodeEscape(data[6:])
	if !ok || utf16.DecodeRune(unit, low) == utf8.RuneError {
		return 0, invalid("lone surrogate in a string")
	}
	return 12, nil
}

func unicodeEscape(data []byte) (rune, bool) {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(data[2:6]), 16, 16)
	return rune(unit), err == nil
}

// noDuplicates walks the tokens of a valid document.
func noDuplicates(dec *json.Decoder) error {
	type level struct {
		keys  map[string]bool // nil in an array
		isKey bool
	}
	var stack []level
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return invalid("%v", err)
		}
		top := len(stack) - 1
		switch t := token.(type) {
		case json.Delim:
			switch t {
			case '{':
				stack = append(stack, level{keys: map[string]bool{}, isKey: true})
				continue
			case '[':
				stack = append(stack, level{})
				continue
			default:
				stack = stack[:top]
				top--
			}
		case string:
			if top >= 0 && stack[top].keys != nil && stack[top].isKey {
				if stack[top].keys[t] {
					return invalid("member appears twice")
				}
				stack[top].keys[t] = true
				stack[top].isKey = false
				continue
			}
		}
		if top >= 0 && stack[top].keys != nil {
			stack[top].isKey = true // a value ended: a key follows
		}
	}
}
