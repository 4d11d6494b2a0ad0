package workflow_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/shared/workqueue"
)

// Every declared queue is one that the service accepts, with its poison queue
// and the longest prefix.
func TestSpecsAreSound(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	seen := map[string]bool{}
	for _, n := range workqueue.Names(workflow.Specs) {
		if seen[n] {
			t.Errorf("%q is there twice", n)
		}
		seen[n] = true
		if !name.MatchString(n) || len("elevenchars")+len(n) > 63 {
			t.Errorf("%q is no queue name", n)
		}
	}
	for _, s := range workflow.Specs {
		if s.Visibility < 30*time.Second || s.Weight < 1 || len(s.Steps) == 0 || s.MaxIdlePoll > 5*time.Second || workflow.Pools()[s.Pool] < 1 {
			t.Errorf("%+v", s)
		}
	}
}
