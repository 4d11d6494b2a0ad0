package azstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// Strategy is how the pauses between tries grow (paper row T11).
type Strategy string

// The paper's strategies.
const (
	NoRetry     Strategy = "none"        // one try
	Fixed       Strategy = "fixed"       // the same pause, Delay, every time
	Exponential Strategy = "exponential" // doubling pauses with random spread
)

// Retry is a retry strategy (paper row T11). The pause before retry x = 1, 2, …
// of the exponential strategy is
//
//	y = rand(0.8·z, 1.2·z) · (2^x − 1)
//	pause = min(zmin + y, zmax)
//
// with z = Delay, zmin = MinDelay and zmax = MaxDelay. A Retry-After of the
// server lengthens a pause. Retried are network errors, time-outs of a try, ErrNoToken unless
// the identity is refused, and the statuses 408, 429, 500, 502, 503 and 504.
//
// A context's deadline, or WithCallLimit, bounds a call as a whole. Its tries then
// share the time that is left, and the last error is returned before it is over.
type Retry struct {
	Strategy   Strategy
	MaxRetries int           // tries after the first, 0 to 20
	Delay      time.Duration // z
	MinDelay   time.Duration // zmin
	MaxDelay   time.Duration // zmax

	// TryTimeout bounds one try until the reply is read; of a streamed download
	// it bounds each wait for more. After a try that timed out the next one gets twice
	// as long, up to 8 times (paper row Q13). 0 means no bound.
	TryTimeout time.Duration
}

const maxRetries = 20

// DefaultRetry rides out a table partition that moves for 18 s at least (paper row T10).
var DefaultRetry = Retry{
	Strategy: Exponential, MaxRetries: 5,
	Delay: 500 * time.Millisecond, MinDelay: 100 * time.Millisecond, MaxDelay: 8 * time.Second,
	TryTimeout: 30 * time.Second,
}

// PaperRetry has the numbers of the paper's example, 5 retries and 45 s, the bounds of the code
// under its formula, 3 s and 90 s, and a TryTimeout of ours. It is for batch programs: a user
// would not wait for it.
var PaperRetry = Retry{
	Strategy: Exponential, MaxRetries: 5,
	Delay: 45 * time.Second, MinDelay: 3 * time.Second, MaxDelay: 90 * time.Second,
	TryTimeout: 90 * time.Second,
}

// validate accepts the zero value, which means DefaultRetry.
func (r Retry) validate() error {
	shortest := min(r.Delay, r.MinDelay, r.MaxDelay, r.TryTimeout)
	switch {
	case r == Retry{}:
	case r.Strategy != NoRetry && r.Strategy != Fixed && r.Strategy != Exponential:
		return fmt.Errorf("retry strategy %q: want none, fixed or exponential", r.Strategy)
	case r.MaxRetries < 0 || r.MaxRetries > maxRetries:
		return fmt.Errorf("retry: %d retries: want 0 to %d", r.MaxRetries, maxRetries)
	case shortest < 0:
		return fmt.Errorf("retry: a negative duration, %s", shortest)
	case r.Strategy == Exponential && r.MinDelay > r.MaxDelay:
		return fmt.Errorf("retry: minimal delay %s is more than the maximal delay %s", r.MinDelay, r.MaxDelay)
	}
	return nil
}

// Pause returns the pause before retry x, counted from 1. spread in [0, 1)
// chooses the point between 0.8·z and 1.2·z.
func (r Retry) Pause(x int, spread float64) time.Duration {
	switch r.Strategy {
	case Fixed:
		return r.Delay
	case Exponential:
		y := (0.8 + 0.4*spread) * float64(r.Delay) * (math.Exp2(float64(x)) - 1)
		return time.Duration(math.Min(float64(r.MinDelay)+y, float64(r.MaxDelay)))
	default:
		return 0
	}
}

type withoutRetryKey struct{}

// WithoutRetry makes calls below the returned context try once: those whose repetition does
// harm, such as renewing a message lease (paper row Q13). The try time-out still holds.
func WithoutRetry(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutRetryKey{}, true)
}

type callLimitKey struct{}

// WithCallLimit bounds every call below the returned context, with all its tries and pauses.
// Unlike a deadline it starts afresh with each call and survives context.WithoutCancel.
func WithCallLimit(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, callLimitKey{}, d)
}

// forever is longer than any call.
const forever = 10 * 365 * 24 * time.Hour

// callEnd is when the context's deadline or WithCallLimit wants a call to be over.
func callEnd(ctx context.Context) time.Time {
	left := forever
	if deadline, bounded := ctx.Deadline(); bounded {
		left = time.Until(deadline)
	}
	if limit, ok := ctx.Value(callLimitKey{}).(time.Duration); ok {
		left = min(left, limit)
	}
	return time.Now().Add(left)
}

// ErrTryTimeout says that the last try got no reply in time. The service may have done the work.
var ErrTryTimeout = errors.New("storage did not answer in time")

// retryPolicy repeats a request as Retry says. It stands before the SDK's
// policies that sign, so every try carries a fresh date.
type retryPolicy struct{ Retry }

// Do implements policy.Policy.
func (p *retryPolicy) Do(req *policy.Request) (*http.Response, error) {
	ctx := req.Raw().Context()
	retries, end := p.MaxRetries, callEnd(ctx)
	patience := cmp.Or(p.TryTimeout, forever)
	timeout := min(patience, time.Until(end)/3) // leaves two thirds for the next try, which gets twice as long
	if p.Strategy == NoRetry || ctx.Value(withoutRetryKey{}) != nil {
		retries, timeout = 0, patience
	}
	for try := 1; ; try++ {
		if err := req.RewindBody(); err != nil {
			return nil, fmt.Errorf("rewind request body: %w", err)
		}
		resp, err := tryOnce(req, min(timeout, time.Until(end)), patience)
		if ctx.Err() != nil || !retryable(resp, err) || try > retries {
			return resp, err
		}
		if errors.Is(err, ErrTryTimeout) {
			timeout = min(8*patience, 2*timeout)
		}
		pause, inTime := p.pauseAfter(try, resp, time.Until(end))
		if !inTime {
			return resp, err
		}
		if resp != nil && resp.Body != nil {
			_, _ = io.Copy(io.Discard, resp.Body) // lets the connection be used again
			_ = resp.Body.Close()
		}
		if err := Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// pauseAfter returns the pause after a try. inTime is false when the call has no time for it,
// or the server asks for more patience than callers have.
func (p *retryPolicy) pauseAfter(try int, resp *http.Response, left time.Duration) (pause time.Duration, inTime bool) {
	pause = min(p.Pause(try, rand.Float64()), left/2)
	if resp == nil {
		return pause, left > 0
	}
	seconds, _ := strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 32) // no number counts as 0
	if after := time.Duration(seconds) * time.Second; after > pause {
		return after, after < left && after <= max(time.Minute, p.MaxDelay)
	}
	return pause, left > 0
}

// tryOnce sends a copy of the request, so that the next try does not see its headers.
func tryOnce(req *policy.Request, timeout, patience time.Duration) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Raw().Context())
	timer := time.AfterFunc(timeout, func() { cancel(ErrTryTimeout) })
	defer timer.Stop()
	resp, err := req.Clone(ctx).Next()
	if err != nil {
		if errors.Is(context.Cause(ctx), ErrTryTimeout) {
			// The transport's own error is left out: it says "context
			// canceled", which callers take for a shutdown.
			err = fmt.Errorf("%w (%s)", ErrTryTimeout, timeout)
		}
		cancel(nil)
		return resp, err
	}
	if _, buffered := resp.Body.(io.Seeker); buffered || resp.Body == nil || resp.Body == http.NoBody {
		cancel(nil)
		return resp, nil
	}
	resp.Body = &streamedBody{resp.Body, ctx, cancel, patience}
	return resp, nil
}

// streamedBody is an answer that is read after its call, and counts what is read. A read
// that fails, or that brings nothing for as long as patience, is trouble of the service.
type streamedBody struct {
	io.ReadCloser
	ctx      context.Context // of the try
	cancel   context.CancelCauseFunc
	patience time.Duration
}

func (b *streamedBody) Read(p []byte) (int, error) {
	silent := time.AfterFunc(b.patience, func() {
		b.cancel(ErrTryTimeout)
		_ = b.ReadCloser.Close() // ends the Read
	})
	n, err := b.ReadCloser.Read(p)
	silent.Stop()
	counterOf(b.ctx).received(int64(n))
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	if cause := context.Cause(b.ctx); errors.Is(cause, ErrTryTimeout) {
		err = cause
	} else if cause != nil {
		return n, cause // the caller closed it, or its context ended
	}
	service, _ := b.ctx.Value(serviceKey{}).(Service)
	return n, &unansweredError{service, err}
}

func (b *streamedBody) Close() error {
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

func retryable(resp *http.Response, err error) bool {
	if err != nil {
		if token, ok := errors.AsType[*tokenError](err); ok {
			return !token.final
		}
		var final interface{ NonRetriable() } // the SDK's mark: bad credentials, for example
		return !errors.As(err, &final)
	}
	return slices.Contains([]int{408, 429, 500, 502, 503, 504}, resp.StatusCode) // the paper's (row T11), and a proxy's 502
}

// Sleep waits for d, or until ctx ends, and then returns why.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
