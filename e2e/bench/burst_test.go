package bench

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func fleetOf(workers ...int) (f Fleet) {
	for i, n := range workers {
		f.Samples = append(f.Samples, Sample{At: time.Duration(i) * time.Second, Workers: n, Messages: int64(10 * n)})
	}
	f.Ready = []time.Duration{time.Second, 2 * time.Second}
	return f
}

// A fleet that swings, does not grow, does not shrink or charges attempts is found out.
func TestBurstIsJudged(t *testing.T) {
	t.Parallel()
	charged := fleetOf(1, 4, 1)
	charged.Charged = 1
	for name, c := range map[string]struct {
		fleet Fleet
		turns int
		good  bool
	}{
		"up and down":     {fleetOf(1, 2, 2, 4, 4, 3, 1), 1, true},
		"a second look":   {fleetOf(1, 3, 2, 4, 1), 3, false},
		"one lull":        {fleetOf(1, 4, 2, 4), 2, false},
		"never grew":      {fleetOf(1, 3, 1), 1, false},
		"attempt charged": {charged, 1, false},
	} {
		if got := c.fleet.Turns(); got != c.turns {
			t.Errorf("%s: %d turns, want %d", name, got, c.turns)
		}
		if err := c.fleet.Judge(); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The plot is well-formed and has a line for each fleet in each panel.
func TestBurstIsDrawn(t *testing.T) {
	t.Parallel()
	svg := string(BurstPlot([]Fleet{fleetOf(1, 4, 1), fleetOf(1, 1), fleetOf(4, 4)}, "a <note>"))
	if n := strings.Count(svg, "<polyline"); n != 9 {
		t.Errorf("%d lines, want 9", n)
	}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
