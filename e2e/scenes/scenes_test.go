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
	"sync"
	"testing"

	"github.com/cutroom/cutroom/e2e/scenes"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/scene"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

// Every scene plays to its end, and all that it claims holds. Among them is the paper's
// own, Q11.
func TestScenes(t *testing.T) {
	t.Parallel()
	cfg := azstore.Config{ConnectionString: azuritetest.ConnectionString(t)}
	var playing sync.WaitGroup
	t.Cleanup(playing.Wait)
	var alone sync.Mutex
	places := make(chan struct{}, 8) // scenes wait more than they work, so more play than there are cores
	for _, sc := range scene.All() {
		t.Run(sc.Name, func(t *testing.T) {
			done := make(chan struct{})
			p := &play{Scene: sc, counts: map[scenes.Kind]int{}}
			playing.Go(func() {
				defer close(done)
				places <- struct{}{}
				defer func() { <-places }()
				p.run(cfg)
			})
			t.Parallel()
			<-done
			if p.err != nil {
				// Leases are of seconds. A machine that stands still for longer than one
				// makes a true sentence false, once, and a mistake makes it so again.
				t.Logf("played once more, alone, because of %v", p.err)
				alone.Lock()
				defer alone.Unlock()
				playing.Wait()
				p = &play{Scene: sc, counts: map[scenes.Kind]int{}}
				p.run(cfg)
			}
			p.judge(t)
		})
	}
}

// play is one scene as it was told.
type play struct {
	scene.Scene
	answers map[string]string
	told    bytes.Buffer
	counts  map[scenes.Kind]int
	last    scenes.Event
	cast    []string
	settled bool // the claim that settles the guess was told
	gap     bool // an event was missing, or came twice
	err     error
}

func (p *play) run(cfg azstore.Config) {
	printer := scenes.Printer{Out: &p.told, Fast: true}
	printer.Begin(p.Scene)
	p.err = scenes.Run(context.Background(), cfg, p.Name, p.answers, func(e scenes.Event) {
		p.gap = p.gap || e.Number != p.last.Number+1
		p.last = e
		p.counts[e.Kind]++
		for _, who := range []string{e.From, e.To} {
			if who != "" && !slices.Contains(p.cast, who) {
				p.cast = append(p.cast, who)
			}
		}
		p.settled = p.settled || e.Kind == scenes.Claim && strings.Contains(e.Text, p.Guess.Claim)
		printer.Print(e)
	})
}

func (p *play) judge(t *testing.T) {
	if p.err != nil {
		t.Errorf("%v\n%s", p.err, &p.told)
	}
	if p.gap || p.last.Kind != scenes.End || p.counts[scenes.End] != 1 {
		t.Errorf("the events are not in order to one end, but to %+v", p.last)
	}
	if p.counts[scenes.Step] < 2 || p.counts[scenes.Claim] < 2 || p.counts[scenes.Wire] < 2 {
		t.Errorf("too little is told to learn from: %v", p.counts)
	}
	for _, who := range p.Cast {
		if !slices.Contains(p.cast, who) {
			t.Errorf("the list says that %q takes part; there were %q", who, p.cast)
		}
	}
	if len(p.Cast) < 2 {
		t.Errorf("the list says that %q take part", p.Cast)
	}
	if p.Guess.Claim == "" || !p.settled || p.Guess.Right >= len(p.Guess.Answers) {
		t.Errorf("no claim has %q, which settles the guess", p.Guess.Claim)
	}
	if signed := regexp.MustCompile(`(?i)sig=|AccountKey|SharedKey(Lite)? [^:]+:[^\[]`).FindString(p.told.String()); signed != "" {
		t.Errorf("a secret is told: %q", signed)
	}
	t.Logf("%.1f s, %v", p.last.Seconds, p.counts)
}

// Whatever a reader answers to a scene's questions, what the scene then claims holds;
// and what is no answer is refused.
func TestEveryAnswerOfAQuestionnaire(t *testing.T) {
	t.Parallel()
	cfg := azstore.Config{ConnectionString: azuritetest.ConnectionString(t)}
	asked := 0
	for _, sc := range scene.All() {
		all := []map[string]string{{}}
		for _, q := range sc.Questions {
			var next []map[string]string
			for _, so := range all {
				for _, o := range q.Options {
					with := maps.Clone(so)
					with[q.Name] = o.Value
					next = append(next, with)
				}
			}
			all = next
		}
		if len(sc.Questions) == 0 {
			if err := scenes.CheckAnswers(sc, map[string]string{"what": "ever"}); !errors.Is(err, scenes.ErrAnswer) {
				t.Errorf("scene %s asks nothing, and an answer gives %v", sc.Name, err)
			}
			continue
		}
		asked += len(all)
		keys := map[string]bool{}
		for _, answers := range all {
			p := &play{Scene: sc, answers: answers, counts: map[scenes.Kind]int{}}
			p.run(cfg)
			if p.err != nil || p.counts[scenes.Claim] < 2 {
				t.Errorf("%v: %v, %v", answers, p.err, p.counts)
			}
			keys[regexp.MustCompile(`PartitionKey .+?, because`).FindString(p.told.String())] = true
		}
		if len(keys) < 5 { // one fixed word, with a suffix, and for a subject: alone, together, with a suffix
			t.Errorf("%s: %d answers lead to %v", sc.Name, len(all), keys)
		}
		if err := scenes.Run(t.Context(), cfg, sc.Name, map[string]string{sc.Questions[0].Name: "perhaps"}, func(scenes.Event) { t.Error("it plays") }); !errors.Is(err, scenes.ErrAnswer) {
			t.Errorf("an answer that is none: %v, want ErrAnswer", err)
		}
	}
	if asked == 0 {
		t.Error("no scene asks anything")
	}
}

// Every row of docs/papers.md that is built has a scene; every scene names rows
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
		if built[row] && len(scene.ScenesOf(row)) == 0 {
			t.Errorf("no scene shows row %s", row)
		}
	}
	for _, sc := range scene.All() {
		for _, row := range sc.Rows {
			if !rows[row] {
				t.Errorf("scene %s names row %s, which docs/papers.md does not have", sc.Name, row)
			}
		}
		if _, err := os.Stat("../../docs/" + sc.Page); err != nil || !strings.HasPrefix(sc.Page, "patterns/") {
			t.Errorf("scene %s: its page: %v", sc.Name, err)
		}
		if !regexp.MustCompile(`^[a-z][a-z-]{2,39}$`).MatchString(sc.Name) || sc.Title == "" || sc.Learn == "" {
			t.Errorf("scene %q lacks a name, a title or what one learns", sc.Name)
		}
	}
}

// What a scene says of Cutroom's tables is what docs/key-design.md says.
func TestScenesKnowTheDataModel(t *testing.T) {
	t.Parallel()
	model, err := os.ReadFile("../../docs/key-design.md")
	if err != nil {
		t.Fatal(err)
	}
	for table, granularity := range scenes.Granularity {
		word, suffix, _ := strings.Cut(granularity, ", ")
		line := regexp.MustCompile(`(?m)^\| \*` + word + `\*.*$`).FindString(string(model))
		if !strings.Contains(line, "`"+table+"`") || suffix != "" && !regexp.MustCompile("with a suffix .*`"+table+"`").MatchString(line) {
			t.Errorf("docs/key-design.md does not say that table %s is %s: %s", table, granularity, line)
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

// A claim that does not hold ends the scene, and a scene leaves nothing behind. So does
// a program that does not fit its story.
func TestAFalseClaimEndsTheScene(t *testing.T) {
	t.Parallel()
	cfg := azstore.Config{ConnectionString: azuritetest.ConnectionString(t)}
	story := []scenes.Line{{Kind: scenes.Claim, Text: "the moon is a queue"}, {Kind: scenes.Note, Text: "so it is %d"}}
	for _, c := range []struct {
		name, end string
		program   func(*scenes.Stage)
	}{
		{"a false claim", "the moon is a queue", func(s *scenes.Stage) { s.Claim(false); t.Error("the scene went on") }},
		{"a value that is missing", "MISSING", func(s *scenes.Stage) { s.Claim(true); t.Error("the scene went on") }},
		{"a value too many", "EXTRA", func(s *scenes.Stage) { s.Claim(true, 1); t.Error("the scene went on") }},
		{"a claim that is left out", "something else to tell", func(s *scenes.Stage) { s.Next(); t.Error("the scene went on") }},
		{"a story that is not told", "its story goes on", func(*scenes.Stage) {}},
	} {
		var end scenes.Event
		err := scenes.RunProgram(t.Context(), cfg, func(ctx context.Context, s *scenes.Stage) {
			if err := s.Account("liar").Ensure(ctx, azstore.Names{Queues: []string{"work"}}); err != nil {
				t.Error(err)
			}
			c.program(s)
		}, story, func(e scenes.Event) { end = e })
		if err == nil || end.Kind != scenes.End || end.Holds || !strings.Contains(end.Text, c.end) {
			t.Errorf("%s: error %v, last event %+v", c.name, err, end)
		}
		if errors.Is(err, scenes.ErrFalse) != (c.name == "a false claim") {
			t.Errorf("%s: error %v", c.name, err)
		}
	}
	if err := scenes.Run(t.Context(), cfg, "no-such-scene", nil, nil); !errors.Is(err, scenes.ErrUnknown) {
		t.Errorf("a scene that is not listed: %v, want ErrUnknown", err)
	}
}
