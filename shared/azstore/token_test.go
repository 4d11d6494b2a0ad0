package azstore_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// moody is a credential that fails as long as err is set.
type moody struct {
	asked atomic.Int32
	err   atomic.Pointer[error]
}

func (m *moody) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	m.asked.Add(1)
	if err := m.err.Load(); err != nil {
		return azcore.AccessToken{}, *err
	}
	return identity{}.GetToken(ctx, o)
}

func (m *moody) fail(err error) {
	if err == nil {
		m.err.Store(nil)
		return
	}
	m.err.Store(&err)
}

// An identity endpoint that is away is trouble that passes: it is retried as a busy
// service is, and named. A refused identity is the same the next time.
func TestNoToken(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	away := error(&azidentity.AuthenticationFailedError{})
	for name, c := range map[string]struct {
		err   error
		tries int
	}{
		"away":    {away, 3},
		"busy":    {&azidentity.AuthenticationFailedError{RawResponse: &http.Response{StatusCode: 503}}, 3},
		"refused": {&azidentity.AuthenticationFailedError{RawResponse: &http.Response{StatusCode: 400}}, 1},
		"none":    {errors.New("no identity in the environment"), 1},
	} {
		m := &moody{}
		m.fail(c.err)
		sent := 0
		a, err := azstore.Open(azstore.Config{Account: "films", Credential: m,
			Retry: azstore.Retry{Strategy: azstore.Fixed, MaxRetries: 2, Delay: time.Millisecond},
			Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
				sent++
				return &http.Response{StatusCode: 200, Body: http.NoBody, Request: r}, nil
			})})
		if err != nil {
			t.Fatal(err)
		}
		ctx, tries := azstore.WithCounter(t.Context())
		_, err = a.Queue("q").GetProperties(ctx, nil)
		service, trouble := azstore.DependencyOf(err)
		if !errors.Is(err, azstore.ErrNoToken) || !azstore.IsUnavailable(err) || !trouble || service != azstore.Queues {
			t.Errorf("%s: %v; trouble %v of %q", name, err, trouble, service)
		}
		if tries.Requests() != c.tries || sent != 0 {
			t.Errorf("%s: %d tries, %d requests, want %d and none", name, tries.Requests(), sent, c.tries)
		}
		// A failure stands for a second, then the identity is asked again.
		if n := m.asked.Load(); n != 1 {
			t.Errorf("%s: the identity was asked %d times in a second, want once", name, n)
		}
		m.fail(nil)
		if !azuritetest.Poll(10*time.Second, func() bool {
			_, err = a.Queue("q").GetProperties(t.Context(), nil)
			return err == nil
		}) {
			t.Errorf("%s: after the identity came back: %v", name, err)
		}
	}
}

// Many requests at once do not wait for the failures of one another.
func TestAwayForMany(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	silent := &silentIdentity{}
	a, err := azstore.Open(azstore.Config{Account: "films", Credential: silent, Retry: azstore.Retry{Strategy: azstore.NoRetry}})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			if _, err := a.Queue("q").GetProperties(t.Context(), nil); err == nil {
				t.Error("an answer without a token")
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took > azuritetest.Patience(20*time.Second) {
		t.Errorf("40 requests without a token took %v, %d of them asked", took, silent.asked.Load())
	}
}

// silentIdentity answers after the patience of its caller.
type silentIdentity struct{ asked atomic.Int32 }

func (s *silentIdentity) GetToken(ctx context.Context, _ policy.TokenRequestOptions) (azcore.AccessToken, error) {
	s.asked.Add(1)
	<-ctx.Done()
	return azcore.AccessToken{}, &azidentity.AuthenticationFailedError{}
}
