// Package strictjson reads JSON that no two readers understand differently: one value,
// valid UTF-8, no repeated names, no lone surrogates, no NUL, bounded depth.
// encoding/json accepts all of these without an error, and then another program may read
// something else than what was checked.
package strictjson

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
)

// MaxDepth bounds how deep objects and arrays may nest.
const MaxDepth = 16

// ErrInvalid wraps every refusal.
var ErrInvalid = errors.New("not strict JSON")

// Parse returns the value that data stands for: a bool, float64, string, []any,
// map[string]any or nil. An error matches ErrInvalid.
func Parse(data []byte) (any, error) {
	var value any
	err := json.Unmarshal(data, &value) // refuses all but NUL and depth
	if err == nil {
		err = check(value, MaxDepth)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return value, nil
}

// check looks for NUL, and for objects and arrays deeper than depth.
func check(value any, depth int) error {
	var below []any
	switch v := value.(type) {
	case string:
		if strings.ContainsRune(v, 0) {
			return errors.New("NUL in a string")
		}
		return nil
	case []any:
		below = v
	case map[string]any:
		for name, member := range v {
			below = append(below, name, member)
		}
	default:
		return nil
	}
	if depth == 0 {
		return fmt.Errorf("nested deeper than %d", MaxDepth)
	}
	for _, v := range below {
		if err := check(v, depth-1); err != nil {
			return err
		}
	}
	return nil
}
