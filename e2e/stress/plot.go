package stress

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
	"time"
)

// The plot: three panels over the same axis, the load that clients offer.
const (
	plotWidth, plotHeight = 980, 1060
	plotLeft, plotRight   = 84, 700 // of the panels
)

// panel is one diagram.
type panel struct {
	title, unit string
	top, bottom float64 // pixels
	low, high   float64 // values
	log         bool
	ticks       []float64
	value       func(Step) (float64, bool)
}

type plot struct {
	strings.Builder
	low, high float64 // offered load
}

func (p *plot) f(format string, args ...any) { _, _ = fmt.Fprintf(p, format+"\n", args...) }

func (p *plot) x(v float64) float64 {
	return plotLeft + (plotRight-plotLeft)*math.Log(v/p.low)/math.Log(p.high/p.low)
}

func (n panel) y(v float64) float64 {
	v = min(max(v, n.low), n.high)
	part := (v - n.low) / (n.high - n.low)
	if n.log {
		part = math.Log(v/n.low) / math.Log(n.high/n.low)
	}
	return n.bottom - (n.bottom-n.top)*part
}

func (p *plot) text(x, y float64, anchor, class, s string) {
	p.f(`<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>`, x, y, anchor, class, html.EscapeString(s))
}

// marks tell keys apart for those who see no colours.
func (p *plot) mark(kind int, x, y float64, color string) {
	switch kind % 6 {
	case 0:
		p.f(`<circle cx="%.1f" cy="%.1f" r="4.5" fill="%s"/>`, x, y, color)
	case 1:
		p.f(`<rect x="%.1f" y="%.1f" width="8.4" height="8.4" fill="#fff" stroke="%s" stroke-width="2"/>`, x-4.2, y-4.2, color)
	case 2:
		p.f(`<path d="M%.1f %.1fl5.4 9.4h-10.8z" fill="%s"/>`, x, y-6, color)
	case 3:
		p.f(`<rect x="%.1f" y="%.1f" width="8.4" height="8.4" fill="%s"/>`, x-4.2, y-4.2, color)
	case 4:
		p.f(`<circle cx="%.1f" cy="%.1f" r="4.2" fill="#fff" stroke="%s" stroke-width="2"/>`, x, y, color)
	case 5:
		p.f(`<path d="M%.1f %.1fl5.6 5.6l-5.6 5.6l-5.6 -5.6z" fill="%s"/>`, x, y-5.6, color)
	}
}

// panels are the diagrams, for the loads from low to high.
func (r *Report) panels() (panels []panel, low, high float64) {
	low = math.Inf(1)
	peak, slow, quick := 0.0, time.Millisecond, time.Hour
	for _, result := range r.Results {
		for _, s := range append(append([]Step{}, result.Steps...), result.Bare...) {
			low, high = min(low, s.Offered), max(high, s.Offered)
			peak, slow = max(peak, s.Written), max(slow, s.P99)
			if s.P99 > 0 {
				quick = min(quick, s.P99)
			}
		}
	}
	most := math.Max(peak, r.Line2000) * 1.25
	panels = []panel{
		{
			title: "Written", unit: "entities/s", top: 118, bottom: 468, log: true,
			low: r.Line500 * 0.6, high: most, ticks: round(r.Line500*0.6, most),
			value: func(s Step) (float64, bool) { return s.Written, true },
		}, {
			title: "Refused: 503 ServerBusy", unit: "% of tries", top: 532, bottom: 722, high: 100, ticks: []float64{0, 25, 50, 75, 100},
			value: func(s Step) (float64, bool) { return 100 * s.Busy, true },
		}, {
			title: "Latency of what was written, p99", unit: "ms", top: 786, bottom: 966, log: true,
			low: decade(quick, math.Floor), high: decade(slow, math.Ceil),
			value: func(s Step) (float64, bool) { return float64(s.P99) / 1e6, s.P99 > 0 },
		},
	}
	latency := &panels[2]
	for v := latency.low; v <= latency.high*1.01; v *= 10 {
		latency.ticks = append(latency.ticks, math.Round(v*1000)/1000)
	}
	return panels, low / 1.15, high * 1.15
}

// SVG draws the report.
func (r *Report) SVG() []byte {
	panels, low, high := r.panels()
	p := &plot{low: low, high: high}
	p.f(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`,
		plotWidth, plotHeight, plotWidth, plotHeight, "Throughput, refusals and latency by kind of PartitionKey under growing load")
	p.f(`<style>text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;font-size:13px;fill:#3c4043}` +
		`.h{font-size:22px;font-weight:600;fill:#202124}.s{font-size:13px;fill:#5f6368}.t{font-size:15px;font-weight:600;fill:#202124}` +
		`.k{font-size:14px;font-weight:600}.l{font-size:12px;fill:#202124}</style>`)
	p.f(`<rect width="%d" height="%d" fill="#fff"/>`, plotWidth, plotHeight)
	p.text(plotLeft, 38, "start", "h", "Which PartitionKey carries the load?")
	if r.Modelled {
		p.text(plotLeft, 60, "start", "s", fmt.Sprintf("Limits, splits and moves are modelled, scale 1:%g: %.4g entities/s here stand for 2,000 on Azure.", r.Scale, r.Line2000))
		p.text(plotLeft, 78, "start", "s", "Storage is Azurite: its own speed, measured without the model, is the grey line.")
	} else {
		p.text(plotLeft, 60, "start", "s", "Measured against an account of Azure's.")
	}
	for i, n := range panels {
		p.axes(r, n, i == len(panels)-1)
		if i == 0 {
			p.limits(r, n)
		}
		if r.Modelled && i != 1 {
			p.bare(r, n)
		}
		for kind, result := range r.Results {
			p.line(n, kind, result)
		}
	}
	p.legend(r, panels[0].top)
	p.f(`</svg>`)
	return []byte(p.String())
}

func (p *plot) axes(r *Report, n panel, last bool) {
	p.text(plotLeft, n.top-14, "start", "t", n.title)
	p.text(plotLeft-10, n.top-14, "end", "s", n.unit)
	for _, v := range n.ticks {
		p.f(`<path d="M%d %.1fH%d" stroke="#e3e5e8"/>`, plotLeft, n.y(v), plotRight)
		p.text(plotLeft-10, n.y(v)+4, "end", "", number(v))
	}
	for factor := 0.25; ; factor *= 2 {
		v := factor * r.Line2000
		if v > p.high {
			break
		}
		if v < p.low {
			continue
		}
		p.f(`<path d="M%.1f %.1fV%.1f" stroke="#eef0f2"/>`, p.x(v), n.top, n.bottom)
		p.text(p.x(v), n.bottom+19, "middle", "", number(v))
	}
	p.f(`<path d="M%d %.1fH%d" stroke="#80868b"/>`, plotLeft, n.bottom, plotRight)
	if last {
		label := "load offered: entities/s that clients try to write"
		if r.Modelled {
			label += fmt.Sprintf("; ×%g is what it stands for on Azure", r.Scale)
		}
		p.text((plotLeft+plotRight)/2, n.bottom+44, "middle", "", label)
	}
}

// limits are the lines of a partition, and everything that was offered.
func (p *plot) limits(r *Report, n panel) {
	for _, limit := range []struct {
		at   float64
		text string
	}{
		{r.Line500, "500/s: one partition, the paper"},
		{r.Line2000, "2,000/s: one partition, today"},
		{r.Server, "4,000/s: one server, an assumption"},
	} {
		if limit.at == 0 || limit.at > n.high {
			continue
		}
		p.f(`<path d="M%d %.1fH%d" stroke="#202124" stroke-width="1.4" stroke-dasharray="7 4"/>`, plotLeft, n.y(limit.at), plotRight)
		if limit.at == r.Line500 { // where no curve is so low
			p.text(plotRight-6, n.y(limit.at)-5, "end", "l", limit.text)
			continue
		}
		p.text(plotLeft+6, n.y(limit.at)-5, "start", "l", limit.text)
	}
	var ideal []string
	for i := range 61 {
		v := p.low * math.Pow(p.high/p.low, float64(i)/60)
		if v <= n.high {
			ideal = append(ideal, fmt.Sprintf("%.1f,%.1f", p.x(v), n.y(v)))
		}
	}
	p.f(`<polyline points="%s" fill="none" stroke="#c4c7cc" stroke-width="1.2" stroke-dasharray="1.5 4" stroke-linecap="round"/>`, strings.Join(ideal, " "))
}

// bare is Azurite alone, the mean of all keys.
func (p *plot) bare(r *Report, n panel) {
	var points []string
	for i := range r.Results[0].Bare {
		var x, y float64
		for _, result := range r.Results {
			v, _ := n.value(result.Bare[i])
			x, y = x+result.Bare[i].Offered/float64(len(r.Results)), y+v/float64(len(r.Results))
		}
		points = append(points, fmt.Sprintf("%.1f,%.1f", p.x(x), n.y(y)))
	}
	p.f(`<polyline points="%s" fill="none" stroke="#9aa0a6" stroke-width="7" stroke-opacity="0.45" stroke-linejoin="round" stroke-linecap="round"/>`, strings.Join(points, " "))
}

func (p *plot) line(n panel, kind int, result Result) {
	var points []string
	for _, s := range result.Steps {
		if v, ok := n.value(s); ok {
			points = append(points, fmt.Sprintf("%.1f,%.1f", p.x(s.Offered), n.y(v)))
		}
	}
	width := 2.4
	if kind == 0 && n.unit != "ms" { // seen under another with the same values
		width = 6.5
	}
	p.f(`<polyline points="%s" fill="none" stroke="%s" stroke-width="%g" stroke-linejoin="round"/>`, strings.Join(points, " "), result.key.Color, width)
	for _, s := range result.Steps {
		if v, ok := n.value(s); ok {
			p.mark(kind, p.x(s.Offered), n.y(v), result.key.Color)
		}
	}
}

func (p *plot) legend(r *Report, top float64) {
	x, y := float64(plotRight+34), top+6
	for kind, result := range r.Results {
		p.f(`<path d="M%.1f %.1fh26" stroke="%s" stroke-width="2.4"/>`, x-6, y-5, result.key.Color)
		p.mark(kind, x+7, y-5, result.key.Color)
		p.f(`<text x="%.1f" y="%.1f" class="k" style="fill:%s">%s</text>`, x+28, y, result.key.Color, html.EscapeString(result.Key))
		p.text(x+28, y+17, "start", "s", "PartitionKey "+result.Example)
		top := result.Steps[len(result.Steps)-1]
		p.text(x+28, y+34, "start", "s", fmt.Sprintf("best %.0f/s, %.0f %% refused", highest(result.Steps), 100*top.Busy))
		y += 60
	}
	if r.Modelled {
		p.f(`<path d="M%.1f %.1fh26" stroke="#9aa0a6" stroke-width="7" stroke-opacity="0.45" stroke-linecap="round"/>`, x-6, y-5)
		p.text(x+28, y, "start", "", "Azurite alone, mean of all keys")
		y += 24
	}
	p.f(`<path d="M%.1f %.1fh26" stroke="#c4c7cc" stroke-width="1.2" stroke-dasharray="1.5 4"/>`, x-6, y-5)
	p.text(x+28, y, "start", "", "all that is offered")
}

// round are the ticks 1, 2, 5, 10, 20, … of a logarithmic axis.
func round(low, high float64) (ticks []float64) {
	for power := math.Pow(10, math.Floor(math.Log10(low))); power <= high; power *= 10 {
		for _, factor := range []float64{1, 2, 5} {
			if v := power * factor; v >= low && v <= high {
				ticks = append(ticks, v)
			}
		}
	}
	return ticks
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// decade is the power of ten below or above, in milliseconds.
func decade(d time.Duration, round func(float64) float64) float64 {
	return math.Pow(10, round(math.Log10(float64(d)/1e6)))
}
