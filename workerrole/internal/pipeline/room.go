package pipeline

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// CheckFreeSpace returns trouble of kind "disk" when this user may not write need bytes below dir, or
// when that cannot be found out. It is asked before a step is taken, and once more by a step
// that knows how much it will write: a disk that is nearly full is the worker's trouble, and
// costs the item nothing.
func CheckFreeSpace(dir string, need int64) error {
	var fs unix.Statfs_t
	err := unix.Statfs(dir, &fs)
	if free := int64(fs.Bavail) * int64(fs.Bsize); err == nil && free < need {
		err = fmt.Errorf("it has %d MiB left, and %d are needed", free>>20, need>>20)
	}
	return diskTrouble("look for room on the scratch disk", err)
}

// CheckFreeSpace is the function of that name for the scratch directory of the attempt, on top of what must stay
// free in any case.
func (w *Work) CheckFreeSpace(bytes int64) error { return CheckFreeSpace(w.Dir, w.room+bytes) }
