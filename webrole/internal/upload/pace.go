package upload

import (
	"errors"
	"io"
	"time"
)

// A body may pause, but not for ever: a client slower than minRate over paceSpan
// holds a connection and buffers for nothing.
const (
	paceSpan = 30 * time.Second
	minRate  = 16 << 10 // bytes per second
)

// ErrSlow says that a body came slower than 16 KiB/s for 30 s.
var ErrSlow = errors.New("body came too slowly")

// Paced bounds how slowly r may deliver. Only the time spent waiting for r
// counts, so a slow storage service is not blamed on the client. deadline is
// http.ResponseController.SetReadDeadline.
func Paced(r io.Reader, deadline func(time.Time) error) io.Reader {
	return &paced{r: r, deadline: deadline}
}

type paced struct {
	r        io.Reader
	deadline func(time.Time) error
	waited   time.Duration
	got      int64
}

func (p *paced) Read(b []byte) (int, error) {
	start := time.Now()
	if err := p.deadline(start.Add(paceSpan)); err != nil {
		return 0, err
	}
	n, err := p.r.Read(b)
	if err != nil {
		// The server listens on the connection from here on, and would take the
		// deadline for the client's end.
		_ = p.deadline(time.Time{})
	}
	p.waited += time.Since(start)
	p.got += int64(n)
	if p.waited >= paceSpan {
		if float64(p.got) < minRate*p.waited.Seconds() && err == nil {
			err = ErrSlow
		}
		p.waited, p.got = 0, 0
	}
	return n, err
}
