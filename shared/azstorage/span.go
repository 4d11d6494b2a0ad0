package azstorage

import (
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

var tracer = otel.Tracer("azstorage")

// spans makes a span of every operation that belongs to a trace, with all its tries.
// Polls and upkeep belong to none. The address is left out of it: it may hold a
// signature, and titles of videos.
type spans Service

func (s spans) Do(req *policy.Request) (*http.Response, error) {
	ctx := req.Raw().Context()
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return req.Next()
	}
	method := req.Raw().Method
	ctx, span := tracer.Start(ctx, string(s)+" "+method, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("az.namespace", "Microsoft.Storage"), attribute.String("az.service", string(s)),
		attribute.String("http.request.method", method), attribute.String("server.address", req.Raw().URL.Hostname()),
	))
	defer span.End()
	resp, err := req.WithContext(ctx).Next()
	if resp != nil {
		span.SetAttributes(attribute.Int("http.response.status_code", resp.StatusCode))
		if code := resp.Header.Get("x-ms-error-code"); code != "" {
			span.SetAttributes(attribute.String("error.type", code))
		}
	}
	if err != nil {
		span.SetStatus(codes.Error, RedactError(err).Error())
	}
	return resp, err
}
