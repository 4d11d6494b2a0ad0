package conformance

import (
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/cutroom/cutroom/shared/azq"
)

// movesScene has work that hangs. Another consumer gets its message, or when the worker was
// killed the message says that an attempt had been ended before.
func movesScene(s *stage) {
	s.limit = 50 // the worker may be quicker than the other consumer, several times
	s.send(encode(greeting("stuck", `{"name":"Ada","stuck":true}`)))
	s.start()
	if !s.working() {
		s.breaks("moves", "the worker has not received the message")
		return
	}
	var m *azqueue.DequeuedMessage
	taken := func() bool {
		m = s.take()
		return m != nil
	}
	if s.until(taken) {
		return
	}
	s.kill()
	if !s.until(taken) {
		s.breaks("moves", "the message did not come again after the worker was killed")
		return
	}
	item, err := azq.DecodeItem(*m.MessageText)
	if err != nil || *m.DequeueCount == 2 && item.Failures == 0 {
		s.breaks("moves", "the worker kept the message of work that makes no progress for %v, and was told %v", s.worker.Patience, s.worker.Visibility)
	}
}

// repliesScene loses the reply to a deletion, and to a renewal.
func repliesScene(s *stage) {
	way := &lossy{methods: map[string]bool{http.MethodDelete: true, http.MethodPut: true}}
	_, rest, _ := strings.Cut(s.worker.connection, queueEndpoint)
	origin, _, _ := strings.Cut(rest, ";")
	target, err := url.Parse(origin)
	if s.failed(err) {
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if s.failed(err) {
		return
	}
	server := &http.Server{Handler: way.proxy(target), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // ends with Close
	defer func() { _ = server.Close() }()
	through := "http://" + listener.Addr().String() + target.Path
	s.connection = strings.Replace(s.worker.connection, queueEndpoint+origin, queueEndpoint+through, 1)
	s.start()
	for i, id := range []string{"deleted", "renewed", "next"} {
		s.send(encode(slow(id, i%2*int(s.lease.Seconds()/3+2))))
		if !s.until(func() bool { return s.length() == 0 }) {
			s.breaks("replies", "%d messages are left, after %d replies were lost", s.length(), 2-way.left())
			return
		}
	}
	if way.left() != 0 {
		s.breaks("replies", "%d of a deletion and a renewal were never sent", way.left())
	}
	s.untouched("replies")
}

const queueEndpoint = "QueueEndpoint=" // in a connection string

// lossy carries requests to the queues, and loses the reply to one of each method.
type lossy struct {
	mu      sync.Mutex
	methods map[string]bool
}

var errLost = errors.New("the reply is lost")

// proxy keeps the path, which is signed; the host is not.
func (l *lossy) proxy(target *url.URL) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host },
		Transport: &http.Transport{DisableKeepAlives: true}, // the emulator closes idle connections
		ModifyResponse: func(answer *http.Response) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			if r := answer.Request; l.methods[r.Method] && strings.Contains(r.URL.Path, "/messages/") {
				delete(l.methods, r.Method)
				return errLost
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }, // breaks the connection
	}
}

// left is how many replies are still to be lost.
func (l *lossy) left() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.methods)
}
