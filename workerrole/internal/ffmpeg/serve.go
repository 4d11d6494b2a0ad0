package ffmpeg

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/cutroom/cutroom/shared/video"
)

// writeBuffer is how many bytes may wait for ffmpeg.
const writeBuffer = 128 << 10

// Serve lets ffmpeg read a source of size bytes by ranges, until ctx ends. The
// address is on this machine, is not to be guessed, and carries no key. Each request
// opens the source, several at the same time.
//
// ffmpeg never talks to storage itself, for two reasons. It would have to be
// given a signature, on a command line that others may see. And it hides from us
// what became of its reads: a connection that broke for good looks to it like
// the end of the file, and it may still end with status 0. Here every read that
// fails is known by its error: it ends the run that made it, with that error if
// it is a *video.Failure, and otherwise with a DependencyError of kind "source".
func Serve(ctx context.Context, size int64, open func() io.ReadSeeker) (Source, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return Source{}, fmt.Errorf("opening a port for the source: %w", err)
	}
	s := &served{path: "/" + rand.Text(), port: listener.Addr().(*net.TCPAddr).Port, size: size, open: open}
	s.failed, s.fail = context.WithCancelCause(context.WithoutCancel(ctx))
	s.left.Store(math.MaxInt64)
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			// What waits in the system's buffer, up to 4 MB, is often read in vain:
			// ffmpeg reads a little and goes elsewhere.
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetWriteBuffer(writeBuffer)
			}
			return ctx
		},
	}
	go func() { _ = server.Serve(listener) }()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return Source{URL: "http://" + listener.Addr().String() + s.path, served: s}, nil
}

// served is the source behind an address.
type served struct {
	path string
	port int
	size int64
	open func() io.ReadSeeker

	left    atomic.Int64 // bytes that may still be read; see bound
	tooMuch error        // what a read beyond them fails with

	failed context.Context // ends with the first read that failed, which is its cause
	fail   context.CancelCauseFunc
}

func (s *served) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != s.path || r.Method != http.MethodGet {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream") // else its first bytes are read to find out
	in := &recordingTransport{ReadSeeker: s.open(), served: s}
	http.ServeContent(w, r, "", time.Time{}, in)
	if in.err == nil { // an error of w is ffmpeg's, which has gone or seeks
		return
	}
	if r.Context().Err() == nil {
		err := in.err
		if !errors.As(err, new(*video.Failure)) { // which says that the source is to blame
			err = &DependencyError{Kind: SourceDependency, Err: err}
		}
		s.fail(err)
	}
	panic(http.ErrAbortHandler) // breaks the connection
}

// bound lets no more than so many bytes be read until the returned function is called:
// a read beyond them fails, with that error.
func (s *served) bound(bytes int64, tooMuch error) (unbound func()) {
	if s == nil {
		return func() {}
	}
	s.tooMuch = tooMuch
	s.left.Store(bytes)
	return func() { s.left.Store(math.MaxInt64) }
}

// recordingTransport keeps the error of a reader apart from that of the writer behind it.
type recordingTransport struct {
	io.ReadSeeker
	served *served
	err    error
}

func (n *recordingTransport) Read(p []byte) (int, error) {
	k, err := n.ReadSeeker.Read(p)
	if n.served.left.Add(-int64(k)) < 0 {
		err = n.served.tooMuch
	}
	if err != nil && !errors.Is(err, io.EOF) {
		n.err = err
	}
	return k, err
}

// trouble returns what became of the reads so far: nil when all went well.
func (s *served) trouble() error {
	if s == nil {
		return nil
	}
	return context.Cause(s.failed)
}
