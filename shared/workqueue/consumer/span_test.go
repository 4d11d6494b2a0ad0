package consumer

import (
	"testing"

	"github.com/cutroom/cutroom/shared/workitem"
	"github.com/cutroom/cutroom/shared/workqueue"
)

// What an item costs for its span without a listener, as it is unless an endpoint is
// set (docs/tracing.md). Beside it stand a receive and a delete, of a millisecond each.
//
//	go test ./workqueue/consumer -run '^$' -bench SpanThatNobodyGets
func BenchmarkSpanThatNobodyGets(b *testing.B) {
	o := &owner{job: &Job{Queue: "jobs", Delivery: workqueue.Delivery{MessageID: "m", DequeueCount: 1}, Item: workitem.Item{
		ID: "i", Step: "work", Subject: "s", Traceparent: "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-01",
	}}}
	b.ReportAllocs()
	for b.Loop() {
		_, end := o.span(b.Context())
		end(nil)
	}
}
