package workqueue_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/workqueue"
)

func TestWithVisibility(t *testing.T) {
	t.Parallel()
	specs, err := workqueue.WithVisibility(workqueue.Specs, "*=10s, encode-high=5s")
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range specs {
		want := 10 * time.Second
		if s.Name == workqueue.EncodeHigh {
			want = 5 * time.Second
		}
		if s.Visibility != want || workqueue.Specs[i].Visibility < 30*time.Second {
			t.Errorf("%s has %v, want %v and the declaration untouched", s.Name, s.Visibility, want)
		}
	}
	if same, err := workqueue.WithVisibility(workqueue.Specs, " "); err != nil || same[0] != workqueue.Specs[0] {
		t.Errorf("empty text: %v, %v", same, err)
	}
	_, err = workqueue.WithVisibility(workqueue.Specs, "nope=5s,probe=1500ms,audio=0s,index,purge=200h,finish=x")
	for _, want := range []string{"nope", "1500ms", "0s", "index", "200h", "finish"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %s: %v", want, err)
		}
	}
}

// Every declared queue is one that the service accepts, with its poison queue
// and the longest prefix.
func TestSpecsAreSound(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	seen := map[string]bool{}
	for _, n := range workqueue.Names() {
		if seen[n] {
			t.Errorf("%q is there twice", n)
		}
		seen[n] = true
		if !name.MatchString(n) || len("elevenchars")+len(n) > 63 {
			t.Errorf("%q is no queue name", n)
		}
	}
	for _, s := range workqueue.Specs {
		if s.Visibility < 30*time.Second || s.Weight < 1 || s.MaxFailures < 1 || s.MaxIdlePoll > 5*time.Second || (s.Pool != workqueue.Light && s.Pool != workqueue.Heavy) {
			t.Errorf("%+v", s)
		}
	}
}
