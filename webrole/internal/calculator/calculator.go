// Package calculator answers questions of size, at /learn/calculators, with the functions by
// which Cutroom itself works. Its texts are in calculators.json and in the page's template.
package calculator

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/price"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/scaling"
)

// Calculator is a form. Is has what follows from its fields by name, durations in seconds; nil
// while a field is wrong.
type Calculator struct {
	Name, Title, About, Page string // Page: of its pattern
	Fields                   []Field
	Is                       map[string]any `json:"-"`
}

// Field is a number that is asked for: as typed, or at first an example.
type Field struct {
	Name, Label, Value string
	Min, Max           float64
	Wrong              bool `json:"-"`
}

//go:embed calculators.json
var described []byte

// All returns the calculators, filled in as the query says.
func All(query url.Values, prices price.Table) (all []Calculator, _ error) {
	if err := json.Unmarshal(described, &all); err != nil {
		return nil, fmt.Errorf("read the calculators: %w", err)
	}
	follows := map[string]func(map[string]float64, price.Table) map[string]any{
		"visibility": visibility, "workers": workers, "suffixes": suffixes, "retries": retries, "cost": cost,
	}
	for i, c := range all {
		n, right := map[string]float64{}, true
		for j, f := range c.Fields {
			if query.Has(f.Name) {
				f.Value = query.Get(f.Name)
			}
			value, err := strconv.ParseFloat(f.Value, 64)
			f.Wrong = err != nil || !(value >= f.Min && value <= f.Max) // NaN is neither
			n[f.Name], right, c.Fields[j] = value, right && !f.Wrong, f
		}
		if right {
			all[i].Is = follows[c.Name](n, prices)
		}
	}
	return all, nil
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

func visibility(n map[string]float64, _ price.Table) map[string]any {
	hidden, work := seconds(n["visibility"]), n["work"]
	soon, late := azq.RenewEvery(hidden, 0).Seconds(), azq.RenewEvery(hidden, 1).Seconds()
	return map[string]any{
		"soon": soon, "late": late, "fewest": math.Ceil(work/late) - 1, "most": math.Ceil(work/soon) - 1,
		"stop": (hidden - azq.Margin(hidden)).Seconds(), "back": hidden.Seconds(), "twice": work >= hidden.Seconds(),
		"never": math.Ceil(work / azq.RenewEvery(time.Second, 0).Seconds()),
	}
}

// workers asks the rule about a queue with all that waits, and all that comes until the target.
func workers(n map[string]float64, _ price.Table) map[string]any {
	come := int64(math.Ceil(n["waiting"] + n["rate"]*n["within"]))
	queue := api.ScaleQueue{Pool: "the queue", Visible: come, SecondsEach: n["each"]}
	wanted, why := scaling.Want(
		scaling.Settings{Bulk: seconds(60 * n["within"]), Floor: 1, Ceiling: math.MaxInt},
		scaling.Observation{Queues: []api.ScaleQueue{queue}, Slots: map[string]int{"the queue": int(n["slots"])}},
	)
	return map[string]any{"wanted": wanted, "why": why}
}

func suffixes(n map[string]float64, _ price.Table) map[string]any {
	count := tablestore.Suffixes(int(n["peak"]))
	return map[string]any{"count": count, "last": count - 1, "computed": tablestore.Shard("video-7", count)}
}

func retries(n map[string]float64, _ price.Table) map[string]any {
	r := azstore.Retry{Strategy: azstore.Exponential, Delay: seconds(n["z"])}
	r.MinDelay, r.MaxDelay = seconds(n["zmin"]), seconds(n["zmax"])
	pauses, least, most := [][]any{}, 0.0, 0.0
	for x := 1; x <= int(n["retries"]); x++ {
		low, high := r.Pause(x, 0).Seconds(), r.Pause(x, 1).Seconds()
		least, most = least+low, most+high
		pauses = append(pauses, []any{x, low, high, least, most})
	}
	return map[string]any{"pauses": pauses}
}

// cost is dollars for a month of 730 hours.
func cost(n map[string]float64, prices price.Table) map[string]any {
	const hours = 730
	items := n["items"] * hours / 24
	spent := engine.Usage{CPU: items * n["cpu"], Requests: map[azstore.RequestKind]int{}}
	for _, kind := range azstore.RequestKinds() {
		spent.Requests[kind] = int(math.Round(items * n[string(kind)]))
	}
	dollars, looks := prices.Cost(spent), prices.Requests("queue.read", int(n["looks"]*hours*60))
	return map[string]any{"requests": dollars.Requests, "looks": looks, "cpu": dollars.CPU, "all": dollars.Total() + looks}
}
