package azstore

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // the checksum of the protocol (Content-MD5), not a secret
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

var tracer = otel.Tracer("azstore")

type serviceKey struct{}

// operation stands first in the pipeline of a service and sees each operation once, with
// all its tries. It tells requests and errors without an answer which service they are for.
type operation Service

// Do implements policy.Policy.
func (o operation) Do(req *policy.Request) (*http.Response, error) {
	ctx, span := o.span(req)
	resp, err := req.WithContext(context.WithValue(ctx, serviceKey{}, Service(o))).Next()
	if err != nil {
		if sent, ok := errors.AsType[*url.Error](err); ok {
			sent.URL = req.Raw().URL.Host // logs and traces quote it: see span
		}
		err = &unansweredError{Service(o), err}
		span.SetStatus(codes.Error, err.Error())
	} else {
		span.SetAttributes(attribute.Int("http.response.status_code", resp.StatusCode))
		if code := resp.Header.Get("x-ms-error-code"); code != "" {
			span.SetAttributes(attribute.String("error.type", code))
		}
	}
	span.End()
	return resp, err
}

// span makes a span of an operation that belongs to a trace. The address is left out of it:
// it may hold a signature, and keys that say something about people.
func (o operation) span(req *policy.Request) (context.Context, trace.Span) {
	ctx, method := req.Raw().Context(), req.Raw().Method
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, noop.Span{}
	}
	return tracer.Start(ctx, string(o)+" "+method, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("az.namespace", "Microsoft.Storage"), attribute.String("az.service", string(o)),
		attribute.String("http.request.method", method), attribute.String("server.address", req.Raw().URL.Hostname()),
	))
}

// tries stands behind the retryPolicy, counts every try and reads the time of its answer.
type tries struct {
	service Service
	seen    func(Try) // may be nil
	ahead   *atomic.Int64
}

// Do implements policy.Policy.
func (t tries) Do(req *policy.Request) (*http.Response, error) {
	counter := counterOf(req.Raw().Context())
	try, begun := Try{Kind: Classify(t.service, req.Raw())}, time.Now()
	counter.add(func(c *Counts) {
		c.Requests[try.Kind]++
		c.Sent += max(0, req.Raw().ContentLength)
	})
	if f, ok := req.Raw().Context().Value(onRequestKey{}).(func()); ok {
		f()
	}
	resp, err := req.Next()
	try.Took = time.Since(begun)
	if resp != nil {
		try.Status = resp.StatusCode
	}
	if t.seen != nil {
		t.seen(try)
	}
	if err != nil || resp == nil {
		return resp, err
	}
	if there, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		t.ahead.Store(int64(there.Sub(time.Now().Truncate(time.Second))))
	}
	if _, buffered := resp.Body.(io.Seeker); counter != nil && buffered { // streamedBody counts the others
		whole, err := runtime.Payload(resp)
		counter.received(int64(len(whole)))
		return resp, err
	}
	return resp, nil
}

// checksums sends the content of blobs and blocks with its MD5, so that the service refuses
// what was changed on the way (paper row Q12).
type checksums struct{}

// Do implements policy.Policy.
func (checksums) Do(req *policy.Request) (*http.Response, error) {
	component := req.Raw().URL.Query().Get("comp")
	body := req.Body()
	if body == nil || req.Raw().Method != http.MethodPut || component != "" && component != "block" {
		return req.Next()
	}
	sum := md5.New()                              //nolint:gosec // see the import
	if _, err := io.Copy(sum, body); err != nil { // the SDK rewinds it
		return nil, fmt.Errorf("read the body of a request: %w", err)
	}
	req.Raw().Header["Content-MD5"] = []string{base64.StdEncoding.EncodeToString(sum.Sum(nil))} // not canonical: the SDK signs it so
	return req.Next()
}

// asciiRows sends rows with the escapes of JSON for all that is beyond ASCII. Azurite reads the
// body of a request in pieces, and breaks a character that lies across two of them.
type asciiRows struct{}

// Do implements policy.Policy.
func (asciiRows) Do(req *policy.Request) (*http.Response, error) {
	kind := req.Raw().Header.Get("Content-Type")
	if body := req.Body(); body != nil && strings.HasPrefix(kind, "application/json") {
		text, err := io.ReadAll(body)
		if err != nil {
			return nil, fmt.Errorf("read the body of a request: %w", err)
		}
		escaped := make([]byte, 0, len(text))
		for _, unit := range utf16.Encode([]rune(string(text))) {
			if unit < utf8.RuneSelf {
				escaped = append(escaped, byte(unit))
			} else {
				escaped = fmt.Appendf(escaped, `\u%04x`, unit)
			}
		}
		if err := req.SetBody(streaming.NopCloser(bytes.NewReader(escaped)), kind); err != nil {
			return nil, fmt.Errorf("set the body of a request: %w", err)
		}
	}
	return req.Next()
}

// clockSlack is what the clocks may differ by, and what a reply cannot tell: it says the
// time in whole seconds.
const clockSlack = 2 * time.Second

// LocalTime converts a time of the service into one of this machine's clock, by the difference
// that the latest reply has told; one of a second or two is not corrected. Messages, rows and
// blobs have times of the service, and a worker whose clock is wrong would take fresh work for
// old. After a reply that came late, times look younger than they are, until the next.
func (a *Account) LocalTime(there time.Time) time.Time {
	ahead := time.Duration(a.ahead.Load())
	if ahead.Abs() <= clockSlack || there.IsZero() {
		return there
	}
	return there.Add(-ahead)
}
