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

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/engine"
)

// writeBuffer is how many bytes may wait for ffmpeg.
const writeBuffer = 128 << 10

// Serve lets ffmpeg read a source of size bytes by ranges, until ctx ends. The address is on
// this machine, is not to be guessed, and carries no key. Each request opens the source, several
// at the same time. Why ffmpeg does not talk to storage: docs/patterns/safe-ffmpeg.md. A read
// that fails ends the run that made it, with its error if that is a *engine.Failure, and
// otherwise with trouble: SourceDependency.
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
			// What waits in the system's buffer, up to 4 MB, is often read in vain.
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

type served struct {
	path string
	port int
	size int64
	open func() io.ReadSeeker

	left atomic.Int64 // bytes that may still be read: a read beyond them is tooMuchMetadata

	failed context.Context // ends with the first read that failed, which is its cause
	fail   context.CancelCauseFunc
}

func (s *served) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != s.path || r.Method != http.MethodGet {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream") // else its first bytes are read to find out
	// A read that failed leaves the answer too short, which breaks the connection.
	http.ServeContent(w, r, "", time.Time{}, &recordingReader{s.open(), s, r.Context()})
}

// recordingReader tells the source of reads that failed while ffmpeg waited for them.
type recordingReader struct {
	io.ReadSeeker
	served  *served
	waiting context.Context
}

func (r *recordingReader) Read(p []byte) (int, error) {
	n, err := r.ReadSeeker.Read(p)
	if r.served.left.Add(-int64(n)) < 0 {
		err = tooMuchMetadata()
	}
	if err != nil && !errors.Is(err, io.EOF) && r.waiting.Err() == nil {
		reason := err
		if !errors.As(err, new(*engine.Failure)) { // which says that the source is to blame
			reason = azq.Trouble(SourceDependency, err)
		}
		r.served.fail(reason)
	}
	return n, err
}

// trouble returns what became of the reads so far: nil when all went well.
func (s *served) trouble() error {
	if s == nil {
		return nil
	}
	return context.Cause(s.failed)
}
