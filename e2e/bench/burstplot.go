package bench

import (
	"fmt"
	"html"
	"strings"
	"time"
)

// Where the panels of the plot are, in pixels.
const (
	burstWidth, burstHeight = 900, 700
	burstLeft, burstRight   = 70, 870
)

var burstColors = []string{"#0b62c4", "#b3261e", "#2e7d32"}

// burstPlot draws three panels over the same time.
type burstPlot struct {
	strings.Builder
	span float64 // seconds
}

func (p *burstPlot) f(format string, args ...any) { _, _ = fmt.Fprintf(p, format+"\n", args...) }

func (p *burstPlot) x(at time.Duration) float64 {
	return burstLeft + (burstRight-burstLeft)*at.Seconds()/p.span
}

// BurstPlot is the fleets over time as SVG: processes, messages, videos that are ready.
func BurstPlot(fleets []Fleet, note string) string {
	p := &burstPlot{span: 1}
	messages := 1.0
	for _, f := range fleets {
		if n := len(f.Samples); n > 0 {
			p.span = max(p.span, f.Samples[n-1].At.Seconds())
		}
		for _, s := range f.Samples {
			messages = max(messages, float64(s.Messages))
		}
	}
	p.f(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13" role="img" aria-label="A burst of uploads met by three fleets of workers">`, burstWidth, burstHeight)
	p.f(`<rect width="100%%" height="100%%" fill="#fff"/>`)
	p.f(`<text x="%d" y="24" font-size="16" font-weight="bold">%d videos uploaded at once: a fleet that follows the queues, and two that do not</text>`, burstLeft, burstVideos)
	for i, f := range fleets {
		x := burstLeft + i*210
		p.f(`<rect x="%d" y="36" width="22" height="6" fill="%s"/><text x="%d" y="44">%s</text>`, x, burstColors[i%len(burstColors)], x+28, html.EscapeString(f.Name))
	}
	p.panel(70, 220, "worker processes", burstMost+1, fleets, func(f Fleet) (points [][2]float64) {
		for i, s := range f.Samples {
			if i > 0 {
				points = append(points, [2]float64{p.x(s.At), float64(f.Samples[i-1].Workers)})
			}
			points = append(points, [2]float64{p.x(s.At), float64(s.Workers)})
		}
		return points
	})
	p.panel(270, 420, "messages in the queues", messages*1.05, fleets, func(f Fleet) (points [][2]float64) {
		for _, s := range f.Samples {
			if s.Messages >= 0 {
				points = append(points, [2]float64{p.x(s.At), float64(s.Messages)})
			}
		}
		return points
	})
	p.panel(470, 620, "videos that are ready", burstVideos*1.05, fleets, func(f Fleet) (points [][2]float64) {
		for i, at := range f.Ready {
			points = append(points, [2]float64{p.x(at), float64(i)}, [2]float64{p.x(at), float64(i + 1)})
		}
		return points
	})
	p.f(`<text x="%d" y="665" text-anchor="middle">seconds since the first upload began</text>`, (burstLeft+burstRight)/2)
	p.f(`<text x="%d" y="688" font-size="11" fill="#555">%s</text>`, burstLeft, html.EscapeString(note))
	p.f(`</svg>`)
	return p.String()
}

// panel draws axes and a line for each fleet. high is the value at the top.
func (p *burstPlot) panel(top, bottom float64, title string, high float64, fleets []Fleet, points func(Fleet) [][2]float64) {
	y := func(v float64) float64 { return bottom - (bottom-top)*v/high }
	p.f(`<text x="%d" y="%.0f" fill="#333">%s</text>`, burstLeft, top-6, title)
	for v := 0.0; v <= high; v += step(high, 5) {
		p.f(`<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%.0f</text>`, burstLeft, y(v), burstRight, burstLeft-8, y(v)+4, v)
	}
	for t := 0.0; t <= p.span; t += step(p.span, 8) {
		at := p.x(time.Duration(t * float64(time.Second)))
		p.f(`<path d="M%.1f %.1fv5" stroke="#333"/><text x="%.1f" y="%.1f" text-anchor="middle">%.0f</text>`, at, bottom, at, bottom+19, t)
	}
	p.f(`<path d="M%d %.1fH%d" stroke="#333"/>`, burstLeft, bottom, burstRight)
	for i, f := range fleets {
		var line strings.Builder
		for _, at := range points(f) {
			_, _ = fmt.Fprintf(&line, " %.1f,%.1f", at[0], y(at[1]))
		}
		p.f(`<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>`, burstColors[i%len(burstColors)], strings.TrimSpace(line.String()))
	}
}

// step is a round distance of ticks, of which at most so many fit.
func step(high float64, ticks int) float64 {
	for size := 1.0; ; size *= 10 {
		for _, part := range []float64{1, 2, 5} {
			if high/(size*part) <= float64(ticks) {
				return size * part
			}
		}
	}
}
