package partitions

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cutroom/cutroom/e2e/chart"
	"github.com/cutroom/cutroom/e2e/report"
)

// highest is the best throughput at any load.
func highest(steps []Step) float64 {
	best := 0.0
	for _, s := range steps {
		best = max(best, s.Written)
	}
	return best
}

// verdict says in words whether the key is too coarse, and why, from what was
// measured.
func verdict(r *Laboratory, result *Result) string {
	top := result.Steps[len(result.Steps)-1]
	best := highest(result.Steps)
	broken := ""
	if top.Broken > 0.005 {
		broken = fmt.Sprintf(", %.0f %% broken off while ranges moved", 100*top.Broken)
	}
	numbers := fmt.Sprintf("%.0f of %.0f entities/s written at the highest load, %.0f %% refused%s", top.Written, top.Offered, 100*top.Busy, broken)
	spread, refused := result.key.spread, top.Busy > 0.2
	switch {
	case spread == onePartition && refused:
		return fmt.Sprintf("Too coarse: whatever is written at one moment has one PartitionKey, which cannot be split, and never passed %.0f (%s).", best, numbers)
	case spread == oneRange && refused:
		return fmt.Sprintf("Too ordered: every PartitionKey is new, but all are written at the end of the last range, so one server has all the load; %d splits left cold ranges behind (%s).", result.Splits, numbers)
	case refused:
		return fmt.Sprintf("Spread, but this load is too much, too: more suffixes, or more time to split (%s).", numbers)
	case best <= r.Line2000:
		return fmt.Sprintf("Not decided: the load never passed the line (%s).", numbers)
	}
	text := fmt.Sprintf("Fine: passes the line of one partition %.1f times (%s)", best/r.Line2000, numbers)
	if result.Splits > 0 {
		text += fmt.Sprintf(" after %d splits", result.Splits)
	}
	switch cost := result.ReadCost; {
	case cost > 1.5:
		text += fmt.Sprintf(". A reader who knows the id needs %.1f requests, %d at worst: the suffix cannot be computed", cost, Suffixes)
	case cost > 0:
		text += ". A reader who knows the id needs one request"
	}
	if result.key.Row == "T4" {
		text += "; a list in order of time is a scan"
	}
	return text + "."
}

// Section is the report for people: a table, and what it says about each key.
func (r *Laboratory) Section() report.Section {
	s := report.Section{Rows: [][]string{{"key", "example", "offered/s", "written/s", "busy (503)", "broken", "p50", "p99", "Azurite alone: written/s", "p99"}}}
	for _, result := range r.Results {
		for i, step := range result.Steps {
			row := []string{"", "", rate(step.Offered), rate(step.Written), percent(step.Busy), percent(step.Broken), ms(step.P50), ms(step.P99), "–", "–"}
			if i == 0 {
				row[0], row[1] = result.Key+" ("+result.Row+")", result.Example
			}
			if i < len(result.Bare) {
				row[8], row[9] = rate(result.Bare[i].Written), ms(result.Bare[i].P99)
			}
			s.Rows = append(s.Rows, row)
		}
		s.Notes = append(s.Notes, fmt.Sprintf("%s (%s, %s). %s", result.Key, result.Example, result.Row, result.Verdict))
		for _, step := range result.Steps {
			if step.FirstFail != "" {
				s.Notes = append(s.Notes, "an answer that was not expected: "+step.FirstFail)
				break
			}
		}
	}
	return s
}

// Head says what is modelled and what is measured.
func (r *Laboratory) Head() string {
	text := fmt.Sprintf("Each load is held for %v; a table holds %d rows before; clients write one row each and repeat nothing.\n", r.StepTime, r.TableRows)
	if !r.Modelled {
		return "**Measured**, all of it, against an account of Azure's. Lines: 500 entities/s (the paper), 2,000 entities/s (today).\n\n" + text
	}
	return fmt.Sprintf("**Modelled**: limits, splits, moves, refusals (%s). **Measured**: latency, and what Azurite and the SDK can do; the columns “Azurite alone” are the same load without the model.\n\n"+
		"Lines: 500 entities/s (the paper) = %.4g here, 2,000 entities/s (today) = %.4g here.\n\n", r.Model, r.Line500, r.Line2000) + text
}

// SVG draws the report: three panels over the load that clients offer.
func (r *Laboratory) SVG() []byte {
	values := []func(Step) float64{
		func(s Step) float64 { return s.Written }, func(s Step) float64 { return 100 * s.Busy }, func(s Step) float64 { return s.P99.Seconds() * 1000 },
	}
	x := chart.Axis{Label: "load offered: entities/s that clients try to write", Low: math.Inf(1), Log: true}
	latency := chart.Axis{Label: "ms", Low: 1, High: 10, Log: true}
	written := chart.Axis{Label: "entities/s", Low: r.Line500 * 0.6, High: r.Line2000 * 1.25, Log: true}
	c := chart.Chart{Title: "Which PartitionKey carries the load?", Notes: []string{"Measured against an account of Azure's."}}
	if r.Modelled {
		x.Label += fmt.Sprintf("; ×%g is what it stands for on Azure", r.Scale)
		c.Notes = []string{
			fmt.Sprintf("Limits, splits and moves are modelled, scale 1:%g: %.4g entities/s here stand for 2,000 on Azure.", r.Scale, r.Line2000),
			"Storage is Azurite: its own speed, measured without the model, is the grey line.",
		}
		c.Series = append(c.Series, chart.Series{Name: "Azurite alone", Color: "#c4c7cc", Width: 7, Points: make([][][2]float64, len(values))})
		for n, value := range values {
			c.Series[0].Points[n] = points(r.Results[0].Bare, value)
		}
	}
	for i, result := range r.Results {
		top := result.Steps[len(result.Steps)-1]
		line := chart.Series{Name: result.Key, Color: result.key.Color, Width: 2.4, Notes: []string{
			"PartitionKey " + result.Example, fmt.Sprintf("best %.0f/s, %.0f %% refused", highest(result.Steps), 100*top.Busy),
		}}
		if i == 0 { // seen under another with the same values
			line.Width = 5
		}
		for _, value := range values {
			line.Points = append(line.Points, points(result.Steps, value))
		}
		c.Series = append(c.Series, line)
		for _, s := range slices.Concat(result.Steps, result.Bare) {
			x.Low, x.High = min(x.Low, s.Offered), max(x.High, s.Offered)
			written.High = max(written.High, s.Written*1.25)
			latency.High = max(latency.High, s.P99.Seconds()*1000)
		}
	}
	c.X = x
	c.Panels = []chart.Panel{
		{Title: "Written", Y: written, Lines: []chart.Line{{At: r.Line500, Text: "500/s: one partition, the paper"}, {At: r.Line2000, Text: "2,000/s: one partition, today"}}},
		{Title: "Refused: 503 ServerBusy", Y: chart.Axis{Label: "% of tries", High: 100}},
		{Title: "Latency of what was written, p99", Y: latency},
	}
	if r.Server > 0 {
		c.Panels[0].Lines = append(c.Panels[0].Lines, chart.Line{At: r.Server, Text: "4,000/s: one server, an assumption"})
	}
	return c.SVG()
}

func points(steps []Step, value func(Step) float64) (points [][2]float64) {
	for _, s := range steps {
		points = append(points, [2]float64{s.Offered, value(s)})
	}
	return points
}

func rate(perSecond float64) string { return fmt.Sprintf("%.0f", perSecond) }

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

func ms(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return fmt.Sprintf("%.3g ms", float64(d)/float64(time.Millisecond))
}
