package enginetest_test

import (
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
)

// What cannot mean what it seems to mean is refused, with what to do.
func TestCheckRefusesWhatHasNoMeaning(t *testing.T) {
	t.Parallel()
	if err := enginetest.Check(enginetest.Sums()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want string
		step engine.Step
	}{
		{"which say something of a Gate only", engine.Step{Stage: engine.Part, Round: 1}},
		{"count from 0", engine.Step{Stage: engine.Gate, Round: -1}},
		{"give it a Round as low", engine.Step{Stage: engine.Gate, Round: 1, Early: true}},
		{"has If, which only", engine.Step{Stage: engine.OnRequest, If: enginetest.PerPair}},
		{"has If, which only", engine.Step{Stage: engine.Part, Count: enginetest.PerFour, If: enginetest.PerPair}},
		{"leave Optional unset", engine.Step{Stage: engine.Last, Optional: true}},
		{"leave Optional unset", engine.Step{Stage: engine.Part, Count: enginetest.PerPair, Leads: true, Optional: true}},
		{"has Expires, which only", engine.Step{Stage: engine.Part, Expires: true}},
	} {
		d := enginetest.Sums()
		c.step.Name, c.step.Queues = "x", []string{enginetest.Rest}
		d.Steps = append(d.Steps, c.step)
		if err := enginetest.Check(d); err == nil || !strings.Contains(err.Error(), `"x"`) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.step, err)
		}
	}
}
