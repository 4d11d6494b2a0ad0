package consumer

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

var tracer = otel.Tracer("workqueue")

// span makes a span of a delivery whose handler is called; end ends it, after the
// message was settled. The first delivery continues the sender's span. A
// later one has a trace of its own with a link to it, because the sender's span ended long ago,
// and the attempt before may be lost. Names are those of OpenTelemetry's conventions for
// messaging, and where those have none they are ours: docs/tracing.md.
func (o *owner) span(ctx context.Context) (_ context.Context, end func(error)) {
	item := o.job.Item
	asker := propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": item.Traceparent})
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		attribute.String("messaging.system", "azure_storage_queue"),
		attribute.String("messaging.operation.name", "process"), attribute.String("messaging.operation.type", "process"),
		attribute.String("messaging.destination.name", o.job.Queue), attribute.String("messaging.message.id", o.job.MessageID),
		attribute.String("messaging.message.conversation_id", item.Subject),
		attribute.String("workitem.id", item.ID), attribute.String("workitem.step", item.Step),
		attribute.Int64("messaging.message.dequeue_count", o.job.DequeueCount),
	)}
	switch sender := trace.SpanContextFromContext(asker); {
	case !sender.IsValid():
	case o.job.DequeueCount > 1:
		options = append(options, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: sender}))
	default:
		ctx = asker
	}
	ctx, span := tracer.Start(ctx, "process "+item.Step, options...)
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}
