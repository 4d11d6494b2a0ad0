package pipeline

import (
	"fmt"

	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
)

// Room returns trouble of kind "disk" when less than need bytes are free below dir. It
// is asked before a step is taken, and once more by a step that knows how much it will
// write: a disk that is nearly full is the worker's trouble, and costs the item nothing.
func Room(dir string, need int64) error {
	free, known := freeBytes(dir)
	if !known || free >= need {
		return nil
	}
	return &ffmpeg.TroubleError{
		Kind: ffmpeg.TroubleDisk,
		Err:  fmt.Errorf("the scratch disk has %d MiB left, and %d are needed", free>>20, need>>20),
	}
}

// NeedRoom is Room for the scratch directory of the attempt, on top of what must stay
// free in any case.
func (w *Work) NeedRoom(bytes int64) error { return Room(w.Dir, w.room+bytes) }
