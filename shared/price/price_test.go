package price_test

import (
	"math"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/price"
)

func TestEveryKindOfRequestHasAPrice(t *testing.T) {
	t.Parallel()
	for _, kind := range azstore.RequestKinds() {
		if _, found := price.Default[string(kind)]; !found {
			t.Errorf("%s has no price", kind)
		}
	}
}

func TestPricesCanBeChanged(t *testing.T) {
	t.Parallel()
	table, err := price.Parse("cpu=3.6, blob.write=10,gb.tostorage=2,gb.fromstorage=4")
	if err != nil {
		t.Fatal(err)
	}
	got := table.Cost(engine.Usage{
		Requests: map[azstore.RequestKind]int{"blob.write": 7, "queue.read": 10_000, "from.tomorrow": 5},
		Sent:     1e9, Received: 5e8, CPU: 2000,
	})
	want := price.Dollars{Requests: 0.007 + price.Default["queue.read"], Bytes: 4, CPU: 2}
	for name, pair := range map[string][2]float64{
		"requests": {
			got.Requests, want.Requests,
		}, "bytes": {
			got.Bytes, want.Bytes,
		}, "cpu": {
			got.CPU, want.CPU,
		}, "total": {
			got.Total(), want.Total(),
		},
	} {
		if math.Abs(pair[0]-pair[1]) > 1e-9 {
			t.Errorf("%s: %v dollars, want %v", name, pair[0], pair[1])
		}
	}
	if price.Default["cpu"] == 3.6 {
		t.Error("the default table was changed")
	}
}

func TestBadPricesAreErrors(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"cpu", "cpu=", "cpu=-1", "cpu=NaN", "cpu=Inf", "gold=1", "cpu=1,silver=2"} {
		if _, err := price.Parse(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
	if _, err := price.Parse("gold=1,cpu=-1"); err == nil || !strings.Contains(err.Error(), "gold") || !strings.Contains(err.Error(), "cpu") {
		t.Errorf("one error names every bad price, got %v", err)
	}
}
