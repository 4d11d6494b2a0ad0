package ffmpeg

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/cutroom/cutroom/shared/tracing"
)

var tracer = otel.Tracer("ffmpeg")

// span makes a span of a run that belongs to a trace. Its arguments are left out: they
// hold paths of the machine.
func span(ctx context.Context, program string) (_ context.Context, end func(error)) {
	if !tracing.HasSpan(ctx) {
		return ctx, func(error) {}
	}
	ctx, span := tracer.Start(ctx, program, trace.WithAttributes(attribute.String("process.executable.name", program)))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}
