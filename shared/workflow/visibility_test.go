package workflow_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/workflow"
)

func TestWithVisibility(t *testing.T) {
	t.Parallel()
	declared := workflow.Visibilities(workflow.Specs)
	specs, err := workflow.WithVisibility("*=10s, encode-high=5s")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range specs {
		want := 10 * time.Second
		if s.Name == "encode-high" {
			want = 5 * time.Second
		}
		if s.Visibility != want {
			t.Errorf("%s has %v, want %v", s.Name, s.Visibility, want)
		}
	}
	if now := workflow.Visibilities(workflow.Specs); now != declared {
		t.Errorf("the declaration has changed: %s", now)
	}
	again, err := workflow.WithVisibility(workflow.Visibilities(specs))
	if err != nil || workflow.Visibilities(again) != workflow.Visibilities(specs) {
		t.Errorf("what is listed cannot be read: %v, %v", again, err)
	}
	if same, err := workflow.WithVisibility(" "); err != nil || workflow.Visibilities(same) != declared {
		t.Errorf("empty text: %v, %v", same, err)
	}
	_, err = workflow.WithVisibility("nope=5s,probe=1500ms,audio=0s,index,purge=200h,finish=x")
	for _, want := range []string{"nope", "1500ms", "0s", "index", "200h", "finish"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %s: %v", want, err)
		}
	}
}
