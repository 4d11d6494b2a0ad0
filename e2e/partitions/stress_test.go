package partitions

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// T9: a table is loaded and one of its partitions gets the peak. The coarse key
// stays at the line, whatever is offered, the spread one passes it, and the report
// says so.
func TestTheLaboratoryTellsKeysApart(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test runs Azurite")
	}
	r, err := Stress{
		Scale: 100, Step: 2 * time.Second, Rows: 60, Peak: 8, Keys: []string{"one partition", "precalculated suffix"}, Log: t.Output(),
	}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	coarse, spread := r.Results[0], r.Results[1]
	top := coarse.Steps[len(coarse.Steps)-1]
	if top.Written > 1.2*r.Line2000 || top.Busy < 0.5 || coarse.Splits > 0 || !strings.HasPrefix(coarse.Verdict, "Too coarse") {
		t.Errorf("one partition: %+v, %d splits: %s", top, coarse.Splits, coarse.Verdict)
	}
	if highest(spread.Steps) < 2*r.Line2000 || spread.Splits == 0 || spread.ReadCost != 1 || strings.HasPrefix(spread.Verdict, "Too") {
		t.Errorf("precalculated: %+v, %d splits: %s", spread.Steps, spread.Splits, spread.Verdict)
	}
	if alone := coarse.Bare[len(coarse.Bare)-1]; alone.Busy > 0 || alone.Written < 2*r.Line2000 {
		t.Errorf("Azurite alone: %+v", alone)
	}
	for _, text := range []string{r.Head() + r.Section().Markdown(), r.Head() + r.Section().Text()} {
		for _, word := range []string{"Too coarse", "precalculated suffix", "scale 1:100"} {
			if !strings.Contains(text, word) {
				t.Errorf("the report does not say %q:\n%s", word, text)
			}
		}
	}
	svg := r.SVG()
	for decoder := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the plot is no XML: %v", err)
		}
	}
	if strings.Contains(string(svg), "NaN") || strings.Contains(string(svg), "Inf") {
		t.Error("a coordinate of the plot is no number")
	}
	_, _ = io.WriteString(t.Output(), r.Section().Text())
}

// A reader of S2 does not know the suffix, one of S3 computes it.
func TestWhereAReaderLooks(t *testing.T) {
	t.Parallel()
	for _, key := range Keys() {
		if key.place == nil {
			continue
		}
		want := 1
		if key.Row == "S2" {
			want = Suffixes
		}
		id := newID()
		places := key.place(id)
		if len(places) != want || !slices.Contains(places, key.partition(id)) {
			t.Errorf("%s: %q is written to %q and looked for in %q", key.Name, id, key.partition(id), places)
		}
	}
}
