package upload

import (
	"bufio"
	"bytes"
	"crypto/md5" //nolint:gosec // the checksum of the protocol (Content-MD5), not a secret
	"errors"
	"hash"
	"io"

	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// intake reads a body and fails instead of ending when the body is shorter than
// promised or its checksum is wrong: the caller that stores it then commits nothing.
type intake struct {
	r    *bufio.Reader
	left int64
	want []byte
	sum  hash.Hash
	err  error // the first failure of the client's side
}

func newIntake(body Body) *intake {
	in := &intake{r: bufio.NewReaderSize(body.Reader, 64<<10), left: body.Size, want: body.MD5}
	if body.MD5 != nil {
		in.sum = md5.New() //nolint:gosec // see above
	}
	return in
}

// peek returns up to n first bytes without taking them.
func (in *intake) peek(n int) ([]byte, error) {
	n = int(min(int64(n), in.left))
	head, err := in.r.Peek(n)
	if err != nil {
		return nil, in.failed(err)
	}
	return head, nil
}

// Read implements io.Reader.
func (in *intake) Read(p []byte) (int, error) {
	if in.err != nil {
		return 0, in.err
	}
	if in.left == 0 {
		if in.sum != nil && !bytes.Equal(in.sum.Sum(nil), in.want) {
			in.err = problem.New(problem.ChecksumMismatch, "The bytes that arrived do not have the announced MD5.")
			return 0, in.err
		}
		return 0, io.EOF
	}
	n, err := in.r.Read(p[:min(int64(len(p)), in.left)])
	in.left -= int64(n)
	if in.sum != nil {
		in.sum.Write(p[:n])
	}
	if err != nil && (in.left > 0 || !errors.Is(err, io.EOF)) {
		return n, in.failed(err)
	}
	return n, nil
}

// failed names what went wrong on the client's side.
func (in *intake) failed(err error) error {
	switch {
	case problem.Is(err, problem.RequestTimeout):
		in.err = problem.New(problem.RequestTimeout, "The body came too slowly. What arrived is kept: go on with the upload's parts.").Because(err)
	default:
		in.err = problem.New(problem.BodyIncomplete, "The body ended before its Content-Length. What arrived is kept.").Because(err)
	}
	return in.err
}
