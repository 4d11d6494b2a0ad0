package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cutroom/cutroom/e2e/load"
)

// persistent repeats each request until it has an answer below 500 that is not 429, and
// tells with it how many tries had no answer or one that says nothing. Each try goes to a web
// role that a load balancer might choose.
type persistent struct {
	users *users
	once  http.RoundTripper
}

// oneTry is how long a try may take: the web role may be frozen.
const oneTry = 30 * time.Second

const lostHeader = "Soak-Lost-Tries"

// lost is how many tries of a request had no answer.
func lost(res *http.Response) int {
	n, _ := strconv.Atoi(res.Header.Get(lostHeader))
	return n
}

var errImpatient = errors.New("no good answer")

// RoundTrip implements http.RoundTripper. Bodies can be read again: those of the generated
// client are in memory.
func (p *persistent) RoundTrip(r *http.Request) (*http.Response, error) {
	deadline := p.users.deadline()
	for tries := 0; ; tries++ {
		res, err := p.try(r)
		if err == nil {
			p.users.count(res.StatusCode)
			if res.StatusCode < 500 && res.StatusCode != http.StatusTooManyRequests {
				res.Header.Set(lostHeader, strconv.Itoa(tries))
				return res, nil
			}
			err = fmt.Errorf("status %d", res.StatusCode)
		} else {
			p.users.count(0)
		}
		if r.Context().Err() != nil || time.Now().After(deadline) {
			return nil, fmt.Errorf("%w: %w", errImpatient, err)
		}
		load.Pause(r.Context(), 400*time.Millisecond)
	}
}

// try reads the whole answer, so that the time of a try bounds it, too.
func (p *persistent) try(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), oneTry)
	defer cancel()
	web, err := url.Parse(p.users.base())
	if err != nil {
		return nil, err
	}
	again := r.Clone(ctx)
	again.URL.Scheme, again.URL.Host, again.Host = web.Scheme, web.Host, ""
	if r.GetBody != nil {
		if again.Body, err = r.GetBody(); err != nil {
			return nil, err
		}
	}
	res, err := p.once.RoundTrip(again)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, err
}
