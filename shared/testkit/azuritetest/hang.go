package azuritetest

import (
	"io"
	"net"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
)

// Hanging is a way to the emulator that can fall silent: it then accepts
// connections and bytes and answers nothing, as a service behind a dead router.
type Hanging struct {
	ConnectionString string

	hangs atomic.Bool
	wg    sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
	done  bool
}

// NewHanging returns a way that works until Hang is called, and ends with the test.
func NewHanging(t testing.TB) *Hanging {
	t.Helper()
	h := &Hanging{}
	var listeners []net.Listener
	h.ConnectionString = regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllStringFunc(ConnectionString(t), func(target string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
		h.wg.Go(func() { h.accept(l, target) })
		return l.Addr().String()
	})
	t.Cleanup(func() {
		for _, l := range listeners {
			_ = l.Close()
		}
		h.mu.Lock()
		h.done = true
		for _, c := range h.conns {
			_ = c.Close()
		}
		h.mu.Unlock()
		h.wg.Wait()
	})
	if len(listeners) != 3 {
		t.Fatalf("the connection string names %d services, want 3", len(listeners))
	}
	return h
}

// Hang makes the service silent, for good.
func (h *Hanging) Hang() { h.hangs.Store(true) }

func (h *Hanging) accept(l net.Listener, target string) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		service, err := net.Dial("tcp", target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !h.keep(client, service) {
			return
		}
		h.wg.Go(func() { h.copy(service, client) })
		h.wg.Go(func() { h.copy(client, service) })
	}
}

// keep remembers connections for the end of the test.
func (h *Hanging) keep(conns ...net.Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns = append(h.conns, conns...)
	if h.done {
		for _, c := range conns {
			_ = c.Close()
		}
	}
	return !h.done
}

// copy passes bytes on, or swallows them; then nothing is ever closed either.
func (h *Hanging) copy(to, from net.Conn) {
	_, err := io.Copy(writer(func(p []byte) (int, error) {
		if h.hangs.Load() {
			return len(p), nil
		}
		return to.Write(p)
	}), from)
	if err != nil || !h.hangs.Load() {
		_ = to.Close()
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
