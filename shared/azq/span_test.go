package azq

import (
	"testing"
)

// What an item costs for its span without a listener, as it is unless an endpoint is
// set (docs/tracing.md). Beside it stand a receive and a delete, of a millisecond each.
//
//	go test . -run '^$' -bench UnsampledSpan
func BenchmarkUnsampledSpan(b *testing.B) {
	o := &owner{job: &RawJob{Queue: "jobs", Delivery: Delivery{MessageID: "m", DequeueCount: 1}, Item: Item{
		ID: "i", Kind: "work", Subject: "s", Traceparent: "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-01",
	}}}
	b.ReportAllocs()
	for b.Loop() {
		_, end := o.span(b.Context())
		end(nil)
	}
}
