package azq_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
)

func TestWithVisibility(t *testing.T) {
	t.Parallel()
	declared := []azq.Spec{{Name: "probe"}, {Name: "encode-high"}, {Name: "audio"}, {Name: "index"}, {Name: "purge"}, {Name: "finish"}}
	for i := range declared {
		declared[i].Visibility = time.Minute
	}
	specs, err := azq.WithVisibility(declared, "*=10s, encode-high=5s")
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range specs {
		want := 10 * time.Second
		if s.Name == "encode-high" {
			want = 5 * time.Second
		}
		if s.Visibility != want || declared[i].Visibility != time.Minute {
			t.Errorf("%s has %v, want %v and the declaration untouched", s.Name, s.Visibility, want)
		}
	}
	if same, err := azq.WithVisibility(declared, " "); err != nil || same[0].Visibility != time.Minute {
		t.Errorf("empty text: %v, %v", same, err)
	}
	_, err = azq.WithVisibility(declared, "nope=5s,probe=1500ms,audio=0s,index,purge=200h,finish=x")
	for _, want := range []string{"nope", "1500ms", "0s", "index", "200h", "finish"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %s: %v", want, err)
		}
	}
}
