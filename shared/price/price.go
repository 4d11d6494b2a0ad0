// Package price turns what workers counted into dollars.
//
// Next: webrole/internal/httpapi, journey.go.
package price

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/engine"
)

// Names of prices that are not those of requests.
const (
	CPU          = "cpu"            // dollars per hour of one processor
	ToStorage    = "gb.tostorage"   // dollars per GB that workers send
	FromStorage  = "gb.fromstorage" // dollars per GB that workers get
	perRequests  = 10_000           // requests have their price by this many
	gigabyte     = 1e9
	secondsAHour = 3600
)

// Table is dollars by name: the [azstore.RequestKind]s, per 10,000, and the names
// above. It is not changed after it was made.
type Table map[string]float64

// Default is what Azure's price lists say for a general-purpose v2 account with local
// redundancy in the hot tier, and for one virtual processor of a D2s v5 (Linux, pay as
// you go), in US regions in 2026, rounded (https://azure.microsoft.com/pricing/). Deletes
// of blobs are free, and so are bytes between a worker and an account of one region.
// Prices change and differ by region: set your own.
var Default = Table{
	"blob.write": 0.055, "blob.list": 0.055, "blob.read": 0.0044, "blob.delete": 0,
	"queue.write": 0.004, "queue.list": 0.004, "queue.read": 0.004, "queue.delete": 0.004,
	"table.write": 0.00036, "table.list": 0.00036, "table.read": 0.00036, "table.delete": 0.00036,
	ToStorage: 0, FromStorage: 0,
	CPU: 0.048,
}

// Parse reads a list of name=dollars, such as "cpu=0.05,blob.write=0.065". What it does
// not name has its default.
func Parse(text string) (Table, error) {
	table := maps.Clone(Default)
	var errs []error
	for _, entry := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		name, value, _ := strings.Cut(entry, "=")
		dollars, err := strconv.ParseFloat(value, 64)
		switch _, known := Default[name]; {
		case !known:
			errs = append(errs, fmt.Errorf("%q: no such price; there are %s", name, strings.Join(slices.Sorted(maps.Keys(Default)), ", ")))
		case err != nil || !(dollars >= 0) || math.IsInf(dollars, 0):
			errs = append(errs, fmt.Errorf("%q: want %s=<dollars>, such as %s=0.05", entry, name, name))
		default:
			table[name] = dollars
		}
	}
	return table, errors.Join(errs...)
}

// Per10000 is the price of 10,000 requests of a kind.
func (t Table) Per10000(kind azstore.RequestKind) float64 { return t[string(kind)] }

// Requests is what a number of requests of a kind costs.
func (t Table) Requests(kind azstore.RequestKind, n int) float64 {
	return t.Per10000(kind) * float64(n) / perRequests
}

// Dollars is what something costs, by what it is spent on.
type Dollars struct{ Requests, Bytes, CPU float64 }

// Total is the sum.
func (d Dollars) Total() float64 { return d.Requests + d.Bytes + d.CPU }

// Cost is what a step, or all of them, cost.
func (t Table) Cost(spent engine.Usage) (d Dollars) {
	for kind, n := range spent.Requests {
		d.Requests += t.Requests(kind, n)
	}
	d.Bytes = (t[ToStorage]*float64(spent.Sent) + t[FromStorage]*float64(spent.Received)) / gigabyte
	d.CPU = t[CPU] * spent.CPU / secondsAHour
	return d
}
