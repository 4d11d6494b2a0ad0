package azstore_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

// T11, the paper's formula, by hand: y = rand(0.8z, 1.2z)·(2^x − 1), min(zmin + y, zmax).
func TestPauseIsThePapersFormula(t *testing.T) {
	t.Parallel()
	r := azstore.Retry{Strategy: azstore.Exponential, Delay: time.Second, MinDelay: 3 * time.Second, MaxDelay: 20 * time.Second}
	for _, c := range []struct {
		x      int
		spread float64
		want   time.Duration
	}{
		{0, 0.5, 3 * time.Second}, // 2^0 − 1 = 0
		{1, 0, 3800 * time.Millisecond},
		{1, 0.5, 4 * time.Second},
		{1, 1, 4200 * time.Millisecond},
		{2, 0, 5400 * time.Millisecond},
		{3, 0.5, 10 * time.Second},
		{4, 0.5, 18 * time.Second},
		{5, 0, 20 * time.Second}, // capped
		{64, 1, 20 * time.Second},
	} {
		if got := r.Pause(c.x, c.spread); math.Abs(float64(got-c.want)) > float64(time.Microsecond) {
			t.Errorf("Pause(%d, %v) = %v, want %v", c.x, c.spread, got, c.want)
		}
	}
	fixed := azstore.Retry{Strategy: azstore.Fixed, Delay: 7 * time.Second}
	if got := fixed.Pause(5, 0.3); got != 7*time.Second {
		t.Errorf("fixed pause = %v, want 7s", got)
	}
}

// T10: however the pauses are drawn, the last try comes after a partition has moved.
func TestDefaultRetryWaitsLongEnough(t *testing.T) {
	t.Parallel()
	var shortest time.Duration
	for x := 1; x <= azstore.DefaultRetry.MaxRetries; x++ {
		shortest += azstore.DefaultRetry.Pause(x, 0)
	}
	if shortest < 18*time.Second || shortest > 20*time.Second {
		t.Errorf("all pauses together are %v at least; the documentation says 18 s", shortest)
	}
}

// T11: the paper's numbers, five retries with z = 45 s between zmin = 3 s and zmax = 90 s.
func TestPaperRetry(t *testing.T) {
	t.Parallel()
	r := azstore.PaperRetry
	if r.MaxRetries != 5 || r.Delay != 45*time.Second || r.MinDelay != 3*time.Second || r.MaxDelay != 90*time.Second {
		t.Fatalf("PaperRetry has %d retries, z = %v, zmin = %v, zmax = %v; want 5, 45s, 3s and 90s", r.MaxRetries, r.Delay, r.MinDelay, r.MaxDelay)
	}
	var low, high []time.Duration
	for x := 1; x <= r.MaxRetries; x++ {
		low, high = append(low, r.Pause(x, 0).Round(time.Millisecond)), append(high, r.Pause(x, 1).Round(time.Millisecond))
	}
	const s = time.Second
	if diff := cmp.Diff([]time.Duration{39 * s, 90 * s, 90 * s, 90 * s, 90 * s}, low); diff != "" {
		t.Errorf("shortest pauses (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]time.Duration{57 * s, 90 * s, 90 * s, 90 * s, 90 * s}, high); diff != "" {
		t.Errorf("longest pauses (-want +got):\n%s", diff)
	}
}

// script answers each try with the next status; 0 is a broken connection. The
// last one repeats.
type script struct {
	statuses []int
	header   http.Header
	delay    func(try int) time.Duration

	mu     sync.Mutex
	bodies []string
	dates  []string
}

func (s *script) Do(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	try := len(s.bodies) + 1
	body := ""
	if r.Body != nil {
		text, _ := io.ReadAll(r.Body)
		body = string(text)
	}
	s.bodies = append(s.bodies, body)
	s.dates = append(s.dates, r.Header.Get("x-ms-date"))
	status := s.statuses[min(try, len(s.statuses))-1]
	s.mu.Unlock()
	if s.delay != nil {
		select {
		case <-time.After(s.delay(try)):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if status == 0 {
		return nil, inject.ErrReset
	}
	header := s.header.Clone()
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: header, Request: r, Body: io.NopCloser(strings.NewReader(""))}, nil
}

func (s *script) tries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.bodies)
}

// quick is the strategy of tests: three retries at once.
var quick = azstore.Retry{Strategy: azstore.Fixed, MaxRetries: 3, Delay: time.Millisecond, TryTimeout: 5 * time.Second}

func scripted(t *testing.T, s *script, r azstore.Retry) *azstore.Account {
	t.Helper()
	a, err := azstore.Open(azstore.Config{ConnectionString: azstore.DevelopmentStorage, Transport: s, Retry: r})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func createQueue(ctx context.Context, a *azstore.Account) error {
	_, err := a.Queue("some-queue").Create(ctx, nil)
	return err
}

// T11: which answers are tried again, and which never are.
func TestWhatIsRetried(t *testing.T) {
	t.Parallel()
	for status, tries := range map[int]int{
		0: 4, 408: 4, 429: 4, 500: 4, 502: 4, 503: 4, 504: 4,
		400: 1, 401: 1, 403: 1, 404: 1, 409: 1, 412: 1, 413: 1, 501: 1, 505: 1,
		201: 1,
	} {
		s := &script{statuses: []int{status}}
		ctx, count := azstore.WithCounter(t.Context())
		err := createQueue(ctx, scripted(t, s, quick))
		if s.tries() != tries || count.Requests() != tries {
			t.Errorf("status %d: %d tries, counted %d; want %d", status, s.tries(), count.Requests(), tries)
		}
		if (err == nil) != (status == 201) {
			t.Errorf("status %d: error %v", status, err)
		}
	}
}

func TestRetryEndsWithTheFirstSuccess(t *testing.T) {
	t.Parallel()
	s := &script{statuses: []int{503, 0, 201}}
	a := scripted(t, s, quick)
	_, _ = a.Queue("q").EnqueueMessage(t.Context(), "the same every time", nil) // the script's 201 has no body to decode
	if s.tries() != 3 {
		t.Fatalf("%d tries, want 3", s.tries())
	}
	for i, body := range s.bodies {
		if !strings.Contains(body, "the same every time") {
			t.Errorf("try %d had body %q", i+1, body)
		}
	}
}

func TestEveryTryIsDatedAnew(t *testing.T) {
	t.Parallel()
	s := &script{statuses: []int{503, 201}, header: http.Header{"Retry-After": {"2"}}}
	_ = createQueue(t.Context(), scripted(t, s, quick))
	if len(s.dates) != 2 || s.dates[0] == "" || s.dates[0] == s.dates[1] {
		t.Errorf("dates of the tries: %q, want two that differ", s.dates)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	s := &script{statuses: []int{503, 201}, header: http.Header{"Retry-After": {"1"}}}
	begin := time.Now()
	_ = createQueue(t.Context(), scripted(t, s, quick))
	if d := time.Since(begin); d < time.Second || s.tries() != 2 {
		t.Errorf("%d tries in %v, want a pause of 1s", s.tries(), d)
	}
	tooLong := &script{statuses: []int{503}, header: http.Header{"Retry-After": {"3600"}}}
	if err := createQueue(t.Context(), scripted(t, tooLong, quick)); !azstore.IsUnavailable(err) || tooLong.tries() != 1 {
		t.Errorf("%d tries: %v; an hour is not waited for", tooLong.tries(), err)
	}
}

// Q13: a time-out is repeated with a longer time-out.
func TestTimeoutGrows(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	r := quick
	r.TryTimeout = 500 * time.Millisecond
	s := &script{statuses: []int{201}, delay: func(int) time.Duration { return 1500 * time.Millisecond }}
	if err := createQueue(t.Context(), scripted(t, s, r)); err != nil || s.tries() != 3 { // 0.5, 1, 2 s
		t.Errorf("%d tries: %v; want success at the third, which may last 2 s", s.tries(), err)
	}
	never := &script{statuses: []int{201}, delay: func(int) time.Duration { return time.Minute }}
	r.MaxRetries = 1
	err := createQueue(t.Context(), scripted(t, never, r))
	if !errors.Is(err, azstore.ErrTryTimeout) || !azstore.IsUnavailable(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no answer: %v, want ErrTryTimeout, which is no shutdown", err)
	}
}

func TestRetryPerCall(t *testing.T) {
	t.Parallel()
	s := &script{statuses: []int{503}}
	a := scripted(t, s, quick)
	_ = createQueue(azstore.WithoutRetry(t.Context()), a)
	if s.tries() != 1 {
		t.Errorf("WithoutRetry: %d tries, want 1", s.tries())
	}
	s = &script{statuses: []int{503}}
	_ = createQueue(t.Context(), scripted(t, s, azstore.Retry{Strategy: azstore.NoRetry, MaxRetries: 5}))
	if s.tries() != 1 {
		t.Errorf("strategy none: %d tries, want 1", s.tries())
	}
}

func TestCancelEndsThePause(t *testing.T) {
	t.Parallel()
	s := &script{statuses: []int{503}}
	slow := azstore.Retry{Strategy: azstore.Fixed, MaxRetries: 3, Delay: time.Hour}
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(50*time.Millisecond, cancel).Stop()
	if err := createQueue(ctx, scripted(t, s, slow)); !errors.Is(err, context.Canceled) || s.tries() != 1 {
		t.Errorf("%d tries: %v, want the context's end after 1", s.tries(), err)
	}
}

// A bounded call has several tries within its time, and says itself what was
// wrong: the context has not ended yet.
func TestRetriesFitTheTimeThatIsLeft(t *testing.T) {
	t.Parallel()
	const limit = 1500 * time.Millisecond
	deadline := func(t *testing.T) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		t.Cleanup(cancel)
		return ctx
	}
	limited := func(t *testing.T) context.Context {
		return context.WithoutCancel(azstore.WithCallLimit(t.Context(), limit))
	}
	hangs := func(int) time.Duration { return time.Minute }
	for name, c := range map[string]struct {
		ctx   func(*testing.T) context.Context
		s     *script
		retry azstore.Retry
	}{
		"hangs, deadline":     {deadline, &script{statuses: []int{201}, delay: hangs}, azstore.DefaultRetry},
		"hangs, call limit":   {limited, &script{statuses: []int{201}, delay: hangs}, azstore.DefaultRetry},
		"hangs, no time-out":  {limited, &script{statuses: []int{201}, delay: hangs}, azstore.Retry{Strategy: azstore.Fixed, MaxRetries: 3}},
		"busy, long pauses":   {deadline, &script{statuses: []int{503}}, azstore.PaperRetry},
		"busy, call limit":    {limited, &script{statuses: []int{503}}, azstore.PaperRetry},
		"busy, far too long":  {limited, &script{statuses: []int{503}, header: http.Header{"Retry-After": {"3"}}}, azstore.PaperRetry},
		"hangs, without more": {limited, &script{statuses: []int{201}, delay: hangs}, azstore.Retry{Strategy: azstore.NoRetry, TryTimeout: time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atLeast := 2
			if name == "busy, far too long" || c.retry.Strategy == azstore.NoRetry {
				atLeast = 1
			}
			begin := time.Now()
			err := createQueue(c.ctx(t), scripted(t, c.s, c.retry))
			took := time.Since(begin)
			if late := limit + azuritetest.Patience(500*time.Millisecond); took > late || c.s.tries() < atLeast {
				t.Errorf("%d tries in %v, want %d or more within %v", c.s.tries(), took, atLeast, limit)
			}
			if !azstore.IsUnavailable(err) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v does not say that storage is away", err)
			}
		})
	}
}
