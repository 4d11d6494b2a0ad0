package scenes

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/azstorage"
)

// outcome is what becomes of a request on its way.
type outcome int

const (
	through    outcome = iota
	busy               // 503 ServerBusy, nothing applied
	lostReply          // applied, and then the connection breaks (Q13)
	broken             // the connection breaks before the request arrives
	corrupted          // one byte of the body is another one when it arrives (Q12)
	silent             // nothing ever answers (Q13)
	unfinished         // 500 OperationTimedOut: a part of it was done (Q10)
)

var errBroken = errors.New("connection reset by peer (made by the scene)")

// road is the way to the storage, on which things happen.
type road struct {
	choose func(*http.Request) outcome
	client *http.Client
}

// onTheWay lets choose decide what becomes of each request of an actor. It is called
// by one request at a time or more.
func onTheWay(choose func(*http.Request) outcome) Option {
	return func(cfg *azstorage.Config) {
		cfg.Transport = road{choose, &http.Client{Transport: &http.Transport{IdleConnTimeout: time.Second}}}
	}
}

// retrying gives an actor a retry strategy of its own.
func retrying(r azstorage.Retry) Option {
	return func(cfg *azstorage.Config) { cfg.Retry = r }
}

// once picks the first n requests that match.
func once(what outcome, n int, match func(*http.Request) bool) func(*http.Request) outcome {
	return func(r *http.Request) outcome { // the actors that use it ask one thing at a time
		if n == 0 || !match(r) {
			return through
		}
		n--
		return what
	}
}

// Do implements azcore's policy.Transporter.
func (w road) Do(r *http.Request) (*http.Response, error) {
	what := w.choose(r)
	switch what {
	case busy:
		return refusal(r, http.StatusServiceUnavailable, "ServerBusy", "The server is busy."), nil
	case unfinished:
		return refusal(r, http.StatusInternalServerError, "OperationTimedOut", "The operation could not be completed within the permitted time."), nil
	case silent:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case broken:
		return nil, errBroken
	case corrupted:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, fmt.Errorf("read the request's body: %w", err)
		}
		body[len(body)/2] ^= 1
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	res, err := w.client.Do(r)
	if what == lostReply && err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		return nil, errBroken
	}
	return res, err
}

// CloseIdleConnections ends what a scene leaves open.
func (w road) CloseIdleConnections() { w.client.CloseIdleConnections() }

func refusal(r *http.Request, status int, code, message string) *http.Response {
	body := `<?xml version="1.0" encoding="utf-8"?><Error><Code>` + code + `</Code><Message>` + message + `</Message></Error>`
	return &http.Response{
		Status: fmt.Sprint(status, " ", http.StatusText(status)), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/xml"}, "X-Ms-Error-Code": {code}},
		Body:   io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}
