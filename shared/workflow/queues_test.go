package workflow_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/workflow"
)

// Every declared queue is one that the service accepts, with its poison queue
// and the longest prefix.
func TestSpecsAreSound(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	seen := map[string]bool{}
	for _, n := range azqtest.Names(azq.Options{Queues: workflow.Specs}) {
		if seen[n] {
			t.Errorf("%q is there twice", n)
		}
		seen[n] = true
		if !name.MatchString(n) || len("elevenchars")+len(n) > 63 {
			t.Errorf("%q is no queue name", n)
		}
	}
	for _, s := range workflow.Specs { // 0 is the default, which is sound
		switch {
		case s.Visibility != 0 && s.Visibility < 30*time.Second:
			t.Errorf("queue %s: its messages are hidden for %v, want at least 30 s: renewals come late on a busy machine", s.Name, s.Visibility)
		case s.Weight < 0:
			t.Errorf("queue %s has a weight of %d", s.Name, s.Weight)
		case len(s.Kinds) == 0:
			t.Errorf("queue %s carries no step: name it in Step.Queues", s.Name)
		case s.MaxIdlePoll > 5*time.Second:
			t.Errorf("queue %s: workers look at it every %v only, want 5 s at most", s.Name, s.MaxIdlePoll)
		case workflow.Pools()[s.Pool] < 1:
			t.Errorf("queue %s: pool %q has no slots in workflow.Pools", s.Name, s.Pool)
		}
	}
}
