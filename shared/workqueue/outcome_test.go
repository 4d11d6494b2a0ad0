package workqueue_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/workqueue"
)

// child is an error as package ffmpeg makes it.
type child string

func (e child) Error() string      { return string(e) }
func (e child) Dependency() string { return string(e) }

func TestTroubleIsToldFromFailure(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		t.Log("no /dev/full here: the error is made by hand")
		err = &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	} else if err == nil {
		_, err = full.Write([]byte("x"))
		_ = full.Close()
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"full disk":       {err, workqueue.Disk},
		"quota":           {syscall.EDQUOT, workqueue.Disk},
		"open files":      {&os.PathError{Op: "open", Path: "x", Err: syscall.EMFILE}, workqueue.Host},
		"memory":          {os.NewSyscallError("fork/exec", syscall.ENOMEM), workqueue.Host},
		"killed":          {child(workqueue.Killed), workqueue.Killed},
		"a missing file":  {os.ErrNotExist, ""},
		"a missing blob":  {blobstore.ErrNotFound, ""},
		"a conflict":      {blobstore.ErrChanged, ""},
		"cut content":     {io.ErrUnexpectedEOF, ""},
		"a bug":           {errors.New("index out of range"), ""},
		"nothing":         {nil, ""},
		"our own verdict": {workqueue.ErrStalled, ""},
	} {
		wrapped := c.err
		if wrapped != nil {
			wrapped = fmt.Errorf("encode: %w", errors.Join(c.err, errors.New("and more")))
		}
		if got, ok := workqueue.AsDependencyError(wrapped); got != c.want || ok != (c.want != "") {
			t.Errorf("%s: trouble with %q, %v; want %q", name, got, ok, c.want)
		}
	}
}
