package hostile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

const (
	// connections is how many the web role keeps open for one client.
	connections = 600
	// fewer are under way at once where something else is tried.
	fewer = connections - 100
	// stayedOpen stands for the status on a connection that the server did not close.
	stayedOpen = 1
)

// memoryBound is the most by which one kind of abuse may raise the web role's memory.
const memoryBound = 96 << 20

// abuse is what many clients do at once to make the web role large, and what each is told.
type abuse struct {
	name  string
	count int // of requests or connections
	want  int // status; 0: the connection is closed without one
	// atOnce is how many of them are under way at a time.
	atOnce int
	one    func(ctx context.Context, to string) (status int, err error)
}

// TestAbuseDoesNotMakeTheWebRoleLarge: each bound of the web role is met many times at
// once. What is refused costs little memory, and what is held until its deadline costs no
// more than its connection.
func TestAbuseDoesNotMakeTheWebRoleLarge(t *testing.T) {
	s := stacktest.Start(t, stack.Options{Env: []string{fmt.Sprint("WEBROLE_CONNECTIONS=", connections), "WEBROLE_RATE_LIMIT=800"}})
	u, err := journey.New(s.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	post := func(body []byte) func(context.Context, string) (int, error) {
		return func(ctx context.Context, to string) (int, error) {
			return ask(ctx, http.MethodPost, to+"/api/v1/videos", bytes.NewReader(body), nil)
		}
	}
	for _, c := range []abuse{
		{"a JSON text of 10 MB", 200, http.StatusRequestEntityTooLarge, fewer, post(bytes.Repeat([]byte("1"), 10_000_000))},
		{"JSON 10,000 deep", 200, http.StatusBadRequest, fewer, post(bytes.Repeat([]byte("["), 10_000))},
		{"64 KiB of headers", 200, http.StatusRequestHeaderFieldsTooLarge, fewer, func(ctx context.Context, to string) (int, error) {
			return ask(ctx, http.MethodGet, to+"/api/v1/videos", nil, http.Header{"X-Long": {strings.Repeat("x", 64<<10)}})
		}},
		{"a body that stops", 300, http.StatusRequestTimeout, fewer, stopsAfter("POST /api/v1/videos HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n{" + strings.Repeat(" ", 30_000))},
		{"headers that stop", 300, 0, fewer, stopsAfter("GET / HTTP/1.1\r\nX-Long: " + strings.Repeat("x", 16<<10))},
		{"a file of 5 GiB and a byte", 200, http.StatusRequestEntityTooLarge, fewer, post([]byte(`{"title":"x","sizeBytes":5368709121}`))},
		{"connections", 2 * connections, 0, 2 * connections, opens},
		{"a burst", 2500, http.StatusTooManyRequests, fewer, func(ctx context.Context, to string) (int, error) {
			return ask(ctx, http.MethodGet, to+"/api/v1/videos/"+strings.Repeat("b", 26), nil, nil)
		}},
	} {
		t.Run(c.name, func(t *testing.T) { c.meet(t, s) })
	}
}

// meet does it all, and measures.
func (c abuse) meet(t *testing.T, s *stack.Stack) {
	pid := s.Pid(stack.Web)
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil { // the peak counts from now
		t.Fatal(err)
	}
	before, began := peak(t, pid), time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), azuritetest.Patience(90*time.Second))
	defer cancel()
	var mu sync.Mutex
	told := map[int]int{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.atOnce)
	for range c.count {
		group.Go(func() error {
			status, err := c.one(ctx, s.BaseURL())
			if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
				status, err = 0, nil // it was closed while more was sent
			}
			mu.Lock()
			defer mu.Unlock()
			told[status]++
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	grown := peak(t, pid) - before
	t.Logf("| %d × %s | %v | %.1f s | + %d MiB |", c.count, c.name, told, time.Since(began).Seconds(), grown>>20)
	others := c.count - told[c.want] - told[0]
	if told[c.want] == 0 || others > 0 && c.want != http.StatusTooManyRequests {
		t.Errorf("answers %v, want %d", told, c.want)
	}
	if grown > memoryBound {
		t.Errorf("the web role grew by %d MiB", grown>>20)
	}
	if s.Pid(stack.Web) != pid {
		t.Error("the web role ended")
	}
}

// ask sends a request on a connection of its own. A server that refuses a body may close
// the connection before all of it was sent.
func ask(ctx context.Context, method, url string, body io.Reader, header http.Header) (int, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return 0, err
	}
	if header != nil {
		req.Header = header
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", method, err)
	}
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, errors.Join(err, res.Body.Close())
}

// stopsAfter sends the beginning of a request, waits and returns the status of the answer;
// 0 when the connection was closed without one.
func stopsAfter(text string) func(context.Context, string) (int, error) {
	return func(ctx context.Context, to string) (int, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(to, "http://"))
		if err != nil {
			return 0, err
		}
		defer func() { _ = conn.Close() }()
		if deadline, ok := ctx.Deadline(); ok {
			_ = conn.SetDeadline(deadline)
		}
		if _, err := io.WriteString(conn, text); err != nil {
			return 0, err
		}
		answer, err := io.ReadAll(conn)
		if err != nil || len(answer) == 0 {
			return 0, err
		}
		_, rest, _ := strings.Cut(string(answer), " ")
		code, _, _ := strings.Cut(rest, " ")
		return strconv.Atoi(code)
	}
}

// opens opens a connection and says nothing on it, until the server closes it or a while
// has passed.
func opens(ctx context.Context, to string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	status, err := stopsAfter("")(ctx, to)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return stayedOpen, nil
	}
	return status, err
}

// peak is the most memory that a process had, in bytes.
func peak(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		t.Fatal("the kernel tells no peak")
	}
	kib, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
