//go:build !linux && !darwin

package pipeline

import "math"

// freeBytes is not known here: files fail when there is no room.
func freeBytes(string) (int64, error) { return math.MaxInt64, nil }
