package scenes_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/e2e/scenes"
	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/azuritetest"
	"github.com/cutroom/cutroom/shared/scene"
)

func TestMain(m *testing.M) {
	scenes.MaybeChild()
	azuritetest.Main(m)
}

// Every scene plays to its end, and all that it claims holds. Among them is the paper's
// own, Q11.
func TestScenes(t *testing.T) {
	t.Parallel()
	cfg := azstorage.Config{ConnectionString: azuritetest.ConnectionString(t)}
	for _, sc := range scene.All() {
		t.Run(sc.Name, func(t *testing.T) {
			t.Parallel()
			var told bytes.Buffer
			printer := scenes.Printer{Out: &told, Fast: true}
			printer.Begin(sc)
			counts := map[scenes.Kind]int{}
			var last scenes.Event
			err := scenes.Run(t.Context(), cfg, sc.Name, func(e scenes.Event) {
				if e.Number != last.Number+1 {
					t.Errorf("event %d comes after event %d", e.Number, last.Number)
				}
				last = e
				counts[e.Kind]++
				printer.Print(e)
			})
			if err != nil || testing.Verbose() {
				t.Logf("the scene:\n%s", &told)
			}
			if err != nil {
				t.Error(err)
			}
			if last.Kind != scenes.End || counts[scenes.End] != 1 {
				t.Errorf("the last event is %+v", last)
			}
			if counts[scenes.Step] < 2 || counts[scenes.Claim] < 2 {
				t.Errorf("too little is told to learn from: %v", counts)
			}
			if signed := regexp.MustCompile(`(?i)sig=|AccountKey|SharedKey(Lite)? [^:]+:[^\[]`).FindString(told.String()); signed != "" {
				t.Errorf("a secret is told: %q", signed)
			}
		})
	}
}

// rowsWithout are the rows of the papers that no scene shows yet. The list only
// shrinks.
var rowsWithout = strings.Fields(`Q1 Q2 Q3 Q4 Q5 Q6 Q8 Q9 Q10 Q12 Q13 Q14 Q15 Q16a Q16b Q16c Q16d Q18 Q19
	T1 T3 T4 T5 T6 T8 T9 T10 T11 S2 S3`)

// Every row of docs/papers.md that is built has a scene, but for rowsWithout; every scene names rows
// and a page that exist.
func TestEveryRowHasAScene(t *testing.T) {
	t.Parallel()
	papers, err := os.ReadFile("../../docs/papers.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	built := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^\| ([QTS]\d+[a-d]?) \|(.*)`).FindAllStringSubmatch(string(papers), -1) {
		rows[found[1]], built[found[1]] = true, !strings.Contains(found[2], "| not built |")
	}
	if len(rows) != 36 {
		t.Errorf("docs/papers.md has %d rows, want 36", len(rows))
	}
	for _, row := range slices.Sorted(maps.Keys(rows)) {
		shown, excused := len(scene.OfRow(row)) > 0, slices.Contains(rowsWithout, row)
		switch {
		case !shown && !excused && built[row]:
			t.Errorf("no scene shows row %s", row)
		case shown && excused:
			t.Errorf("row %s has a scene now: take it off rowsWithout", row)
		}
	}
	for _, sc := range scene.All() {
		for _, row := range sc.Rows {
			if !rows[row] {
				t.Errorf("scene %s names row %s, which docs/papers.md does not have", sc.Name, row)
			}
		}
		if _, err := os.Stat("../../docs/" + sc.Page); err != nil {
			t.Errorf("scene %s: its page: %v", sc.Name, err)
		}
		if !regexp.MustCompile(`^[a-z][a-z-]{2,39}$`).MatchString(sc.Name) || sc.Title == "" || sc.Learn == "" {
			t.Errorf("scene %q lacks a name, a title or what one learns", sc.Name)
		}
	}
}

// The list of package scene and the programs here are of the same scenes.
func TestEveryListedSceneHasAProgram(t *testing.T) {
	t.Parallel()
	var listed []string
	for _, sc := range scene.All() {
		listed = append(listed, sc.Name)
	}
	slices.Sort(listed)
	if programs := scenes.Names(); !slices.Equal(listed, programs) {
		t.Errorf("package scene lists %q, e2e/scenes plays %q", listed, programs)
	}
}

// A claim that does not hold ends the scene, and a scene leaves nothing behind.
func TestAFalseClaimEndsTheScene(t *testing.T) {
	t.Parallel()
	cfg := azstorage.Config{ConnectionString: azuritetest.ConnectionString(t)}
	var end scenes.Event
	err := scenes.RunProgram(t.Context(), cfg, func(ctx context.Context, s *scenes.Stage) error {
		if err := s.Account("liar").Ensure(ctx, nil, []string{"work"}, nil); err != nil {
			return err
		}
		s.Claim(false, "the moon is a queue")
		_, err := s.Account("liar").Queue("work").GetProperties(ctx, nil)
		if err == nil {
			t.Error("the scene went on after a false claim")
		}
		return nil
	}, func(e scenes.Event) { end = e })
	if !errors.Is(err, scenes.ErrFalse) || end.Kind != scenes.End || end.Holds || !strings.Contains(end.Text, "the moon is a queue") {
		t.Errorf("error %v, last event %+v; want ErrFalse", err, end)
	}
	if err := scenes.Run(t.Context(), cfg, "no-such-scene", nil); !errors.Is(err, scenes.ErrUnknown) {
		t.Errorf("a scene that is not listed: %v, want ErrUnknown", err)
	}
}
