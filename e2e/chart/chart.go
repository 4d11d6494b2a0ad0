// Package chart draws lines as SVG: panels below each other over one axis, with a legend.
package chart

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// Chart is a drawing.
type Chart struct {
	Title  string
	Notes  []string // below the title
	X      Axis
	Panels []Panel
	Series []Series
}

// Axis says which values there are.
type Axis struct {
	Label     string // or the unit
	Low, High float64
	Log       bool
}

// Panel is one diagram.
type Panel struct {
	Title string
	Y     Axis
	Lines []Line
}

// Line is a value across a panel.
type Line struct {
	At   float64
	Text string
}

// Series is one line in each panel.
type Series struct {
	Name  string
	Notes []string // below the name
	Color string
	Width float64
	// Points are those of each panel: x and y.
	Points [][][2]float64
}

// Where things are, in pixels.
const (
	width, left, right = 980, 84, 700
	top, panelHeight   = 128, 210
	gap                = 66
)

type drawing struct {
	strings.Builder
	Chart
}

// SVG draws the chart.
func (c Chart) SVG() []byte {
	d := &drawing{Chart: c}
	height := top + len(c.Panels)*(panelHeight+gap)
	d.f(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`, width, height, width, height, html.EscapeString(c.Title))
	d.f(`<style>text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;font-size:13px;fill:#3c4043}` +
		`.h{font-size:21px;font-weight:600;fill:#202124}.s{fill:#5f6368}.t{font-size:15px;font-weight:600;fill:#202124}</style>`)
	d.f(`<rect width="%d" height="%d" fill="#fff"/>`, width, height)
	d.text(left, 38, "start", "h", c.Title)
	for i, note := range c.Notes {
		d.text(left, 60+float64(18*i), "start", "s", note)
	}
	for i := range c.Panels {
		d.panel(i)
	}
	d.legend()
	d.f(`</svg>`)
	return []byte(d.String())
}

func (d *drawing) f(format string, args ...any) { _, _ = fmt.Fprintf(d, format+"\n", args...) }

func (d *drawing) text(x, y float64, anchor, class, s string) {
	d.f(`<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>`, x, y, anchor, class, html.EscapeString(s))
}

// at is where a value is between two pixels. What is beyond the axis is at its end.
func (a Axis) at(v, from, to float64) float64 {
	v = min(max(v, a.Low), a.High)
	share := (v - a.Low) / (a.High - a.Low)
	if a.Log {
		share = math.Log(v/a.Low) / math.Log(a.High/a.Low)
	}
	return from + (to-from)*share
}

// ticks are round values of an axis: 1, 2, 5, 10, … of a logarithmic one, and of another
// such a step that at most eight fit.
func (a Axis) ticks() (ticks []float64) {
	if !a.Log {
		step := 1.0
		for n := 0; (a.High-a.Low)/step > 8; n++ {
			step *= []float64{2, 2.5, 2}[n%3]
		}
		for v := math.Ceil(a.Low/step) * step; v <= a.High; v += step {
			ticks = append(ticks, v)
		}
		return ticks
	}
	for power := math.Pow(10, math.Floor(math.Log10(a.Low))); power <= a.High; power *= 10 {
		for _, factor := range []float64{1, 2, 5} {
			if v := power * factor; v >= a.Low && v <= a.High {
				ticks = append(ticks, v)
			}
		}
	}
	return ticks
}

func (d *drawing) panel(n int) {
	p := d.Panels[n]
	high := float64(top + n*(panelHeight+gap))
	low := high + panelHeight
	x := func(v float64) float64 { return d.X.at(v, left, right) }
	y := func(v float64) float64 { return p.Y.at(v, low, high) }
	d.text(left, high-14, "start", "t", p.Title)
	d.text(left-10, high-14, "end", "s", p.Y.Label)
	for _, v := range p.Y.ticks() {
		d.f(`<path d="M%d %.1fH%d" stroke="#e3e5e8"/>`, left, y(v), right)
		d.text(left-10, y(v)+4, "end", "", number(v))
	}
	for _, v := range d.X.ticks() {
		d.f(`<path d="M%.1f %.1fV%.1f" stroke="#eef0f2"/>`, x(v), high, low)
		d.text(x(v), low+19, "middle", "", number(v))
	}
	d.f(`<path d="M%d %.1fH%d" stroke="#80868b"/>`, left, low, right)
	if n == len(d.Panels)-1 {
		d.text((left+right)/2, low+42, "middle", "", d.X.Label)
	}
	for _, line := range p.Lines {
		if line.At <= p.Y.High {
			d.f(`<path d="M%d %.1fH%d" stroke="#202124" stroke-width="1.4" stroke-dasharray="7 4"/>`, left, y(line.At), right)
			d.text(left+6, y(line.At)-5, "start", "", line.Text)
		}
	}
	for _, s := range d.Series {
		var points []string
		for _, at := range s.Points[n] {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(at[0]), y(at[1])))
		}
		d.f(`<polyline points="%s" fill="none" stroke="%s" stroke-width="%g" stroke-linejoin="round"/>`, strings.Join(points, " "), s.Color, s.Width)
	}
}

func (d *drawing) legend() {
	y := float64(top + 6)
	for _, s := range d.Series {
		d.f(`<path d="M%d %.1fh26" stroke="%s" stroke-width="%g"/>`, right+28, y-5, s.Color, s.Width)
		d.text(right+62, y, "start", "t", s.Name)
		for _, note := range s.Notes {
			y += 17
			d.text(right+62, y, "start", "s", note)
		}
		y += 26
	}
}

func number(v float64) string { return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64) }
