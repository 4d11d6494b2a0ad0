package azq_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
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
		"full disk":       {err, azq.Disk},
		"quota":           {syscall.EDQUOT, azq.Disk},
		"open files":      {&os.PathError{Op: "open", Path: "x", Err: syscall.EMFILE}, azq.Host},
		"memory":          {os.NewSyscallError("fork/exec", syscall.ENOMEM), azq.Host},
		"killed":          {child(azq.Killed), azq.Killed},
		"a missing file":  {os.ErrNotExist, ""},
		"a missing blob":  {blobstore.ErrNotFound, ""},
		"a conflict":      {blobstore.ErrChanged, ""},
		"cut content":     {io.ErrUnexpectedEOF, ""},
		"a bug":           {errors.New("index out of range"), ""},
		"nothing":         {nil, ""},
		"our own verdict": {azq.ErrStalled, ""},
	} {
		wrapped := c.err
		if wrapped != nil {
			wrapped = fmt.Errorf("encode: %w", errors.Join(c.err, errors.New("and more")))
		}
		if got, ok := azq.AsDependencyError(wrapped); got != c.want || ok != (c.want != "") {
			t.Errorf("%s: trouble with %q, %v; want %q", name, got, ok, c.want)
		}
	}
}
