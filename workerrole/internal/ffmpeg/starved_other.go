//go:build !linux

package ffmpeg

import "time"

// processorOf knows nothing here: a program that gets no processor counts as stalled.
func processorOf(int) (wants bool, used time.Duration, known bool) { return false, 0, false }
